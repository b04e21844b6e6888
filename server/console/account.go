package console

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"time"

	"tollgate/engine"
	"tollgate/engine/billing"
	api "tollgate/sdk/go"
	"tollgate/server"
	"tollgate/server/console/page"
)

func sortFields(fields []changedField) {
	slices.SortFunc(fields, func(a, b changedField) int { return cmp.Compare(a.Name, b.Name) })
}

// environmentPage is a page within an environment, with its position and its siblings.
func (v *visit) environmentPage(name, tab, title, lead string, data any) page.View {
	p := page.View{Page: name, Title: title, Lead: lead, Data: data}
	within := tab
	switch tab {
	case "Keys", "Events", "Webhooks", "Log":
		within = "Developers"
		p.Within = []page.Link{
			{Text: "Keys", URL: v.base() + "/keys"},
			{Text: "Events", URL: v.base() + "/events"},
			{Text: "Webhooks", URL: v.base() + "/webhooks"},
			{Text: "Log", URL: v.base() + "/log"},
		}
	case "Settings", "Test clock":
		within, p.Within = "Settings", settingsTabs(v)
	case "Usage", "Denied checks", "Budgets", "Margin":
		within = "Usage"
		p.Within = []page.Link{
			{Text: "Usage", URL: v.base() + "/usage"},
			{Text: "Denied checks", URL: v.base() + "/denied"},
			{Text: "Budgets", URL: v.base() + "/budgets"},
			{Text: "Margin", URL: v.base() + "/margin"},
		}
	}
	for i := range p.Within {
		p.Within[i].Here = p.Within[i].Text == tab || i == 0 && tab == within
	}
	for _, link := range []page.Link{
		{Text: "Overview", URL: v.base() + "/overview"},
		{Text: "Customers", URL: v.customersURL()},
		{Text: "Usage", URL: v.base() + "/usage"},
		{Text: "Invoices", URL: v.base() + "/invoices"},
		{Text: "Catalog", URL: v.base() + "/catalog"},
		{Text: "Developers", URL: v.base() + "/keys"},
		{Text: "Settings", URL: v.base() + "/settings"},
	} {
		link.Here = link.Text == within
		p.Tabs = append(p.Tabs, link)
	}
	return p
}

func (s *Console) keyRows() []row {
	const keys = "/accounts/{account}/{environment}/keys"
	return []row{
		look(keys, "keys", showKeys),
		form(keys, "create key", createKey),
		asked(form(keys+"/{id}/roll", "roll key", rollKey)),
		asking(keys+"/{id}/revoke", "revoke key", askRevoke, func(v *visit) {
			reply := v.admin(v.adminCall("revokeKey", string(v.x.Param(2))))
			v.finish(reply.Fault, showKeys, v.base()+"/keys", "revoked")
		}),
		asked(form(keys+"/{id}/budget", "bind key", bindKey)),
	}
}

// bindKey binds a key to the budget that the form names, or to none, once that is confirmed.
func bindKey(v *visit) {
	id, budget := string(v.x.Param(2)), v.typed("budget")
	if v.sure() {
		reply := v.send("bindKey", map[string]any{"budget": budget}, id)
		v.finish(reply.Fault, showKeys, v.base()+"/keys", "bound")
		return
	}
	key, found := keyOf(v, id)
	if budget != "" && found {
		_, fault := dataOf[api.Budget](v, v.admin(v.adminCall("showBudget", budget)))
		switch {
		case fault == nil:
		case fault.Code == server.FaultOf(engine.OutcomeBudgetUnknown).Code:
			v.wrong("budget", fault.Message)
			found = false
		default:
			v.fault = fault
		}
	}
	if !found {
		showKeys(v)
		return
	}
	q := question{
		Title: "Bind the key " + key.Hint + "… to " + budget + "?", Button: "Bind this key",
		Back: v.base() + "/keys", Facts: append(keyFacts(&key),
			fact{"Bound to", cmp.Or(key.Budget, "any budget")}, fact{"New budget", budget}),
		Notes: []string{"Requests with this key count at this budget unless they name one below it. " +
			"Those that name another one get 404, and those that change budgets 403."},
	}
	if budget == "" {
		q.Title, q.Button = "Unbind the key "+key.Hint+"…?", "Unbind this key"
		q.Facts[len(q.Facts)-1].Value = "any budget"
		q.Notes = []string{"Requests with this key count at the customers' own budgets, or where they " +
			"say, and may change budgets where the key's scope is full."}
	}
	v.ask(q)
}

// keyOf finds a key of the environment, or notes that there is none.
func keyOf(v *visit, id string) (key api.Key, found bool) {
	list := need[[]api.Key](v, v.admin, v.adminCall("listKeys"))
	at := slices.IndexFunc(list, func(k api.Key) bool { return k.ID == id })
	if at < 0 {
		v.problem(server.FaultOf(engine.OutcomeKeyUnknown))
		return key, false
	}
	return list[at], true
}

// keyFacts are what a question about a key says of it.
func keyFacts(key *api.Key) []fact {
	used := "never"
	if !key.LastUsedAt.IsZero() {
		used = minuteOf(key.LastUsedAt)
	}
	return []fact{
		{"Name", key.Label},
		{"Scope", key.Scope},
		{"Last used", used},
		{"Last 24 hours", usesOf(int(key.RequestsDay), int(key.EventsDay))},
		{"Last 30 days", usesOf(int(key.RequestsMonth), int(key.EventsMonth))},
	}
}

// usesOf says how often a key was used.
func usesOf(requests, events int) string {
	return page.Amount(requests) + " requests, " + page.Amount(events) + " usage events recorded"
}

// askRevoke names the key that will be revoked.
func askRevoke(v *visit) {
	key, found := keyOf(v, string(v.x.Param(2)))
	if !found {
		showKeys(v)
		return
	}
	v.ask(question{
		Title: "Revoke the key " + key.Hint + "…?", Button: "Revoke this key", Danger: true,
		Facts: keyFacts(&key), Notes: endNotes(v, &key), Back: v.base() + "/keys",
	})
}

// endNotes are what a question says of a key that ends at once.
func endNotes(v *visit, key *api.Key) []string {
	notes := []string{
		"Requests with this key are refused at once, for good. " + linksNote,
	}
	if v.console.config.Now().Sub(key.LastUsedAt) < day {
		notes = append(notes, "A program used it within the last day: the usage that it sends is "+
			"no longer recorded, nor billed, and its checks are refused. Give it another key first.")
	}
	return notes
}

const linksNote = "Portal links that were created with it end with it."

type keysData struct {
	Base, Budgets   string
	Keys            []api.Key
	Revoked         []api.Key
	Manage          bool
	Label, Customer string
	Scope           string
	Pager           page.Pager
	// Acted is the key whose form was refused, with the field Field; the others are as ever.
	Acted, Field string
	// Only is the id of the one key that is listed, which the search found; "" lists all.
	Only string
}

// Shows reports whether a key's form with a field is the one that was refused.
func (d keysData) Shows(id, field string) bool { return id == d.Acted && field == d.Field }

// Alone reports whether a key's row has its forms: in a list of many they would make the page
// heavy.
func (d keysData) Alone(id string) bool { return d.Only != "" || id == d.Acted }

// URLOf is a budget's page.
func (d keysData) URLOf(key string) string { return d.Budgets + "/" + url.PathEscape(key) }

// inUseFirst puts keys in use before revoked ones, each the newest first.
func inUseFirst(list []api.Key) []api.Key {
	slices.Reverse(list)
	slices.SortStableFunc(list, func(a, b api.Key) int {
		// A key in use has the zero time, which is before 1970.
		return cmp.Compare(min(a.RevokedAt.Unix(), 0), min(b.RevokedAt.Unix(), 0))
	})
	return list
}

// showKeys lists the keys in use, the newest first, and behind them those that were revoked.
func showKeys(v *visit) {
	list := need[[]api.Key](v, v.admin, v.adminCall("listKeys"))
	data := keysData{
		Base: v.base() + "/keys", Budgets: v.base() + "/budgets", Manage: v.manage,
		Label: v.fields.Get("label"), Customer: v.fields.Get("customer"),
		Scope: cmp.Or(v.fields.Get("scope"), "full"), Only: v.query("key"),
	}
	if data.Only != "" {
		list = slices.DeleteFunc(list, func(k api.Key) bool { return k.ID != data.Only })
	}
	if v.status >= 400 && v.x.Route.Parameters() > 2 {
		data.Acted = string(v.x.Param(2))
		for _, name := range []string{"budget", overlapField} {
			if v.fields.Has(name) {
				data.Field = name
			}
		}
	}
	list = inUseFirst(list)
	list, data.Pager = pageOf(v, data.Base, list, nil, "key")
	for _, key := range list {
		to := &data.Keys
		if !key.RevokedAt.IsZero() {
			to = &data.Revoked
		}
		*to = append(*to, key)
	}
	v.show(v.environmentPage("keys", "Keys", "API keys",
		"Programs call the client API with these keys. A key is shown once, when it is created.", data))
}

func createKey(v *visit) {
	call := v.adminCall("createKey")
	call.OnceKey = page.OnceKey(v.fields)
	call.Body = body(map[string]any{
		"scope": v.fields.Get("scope"), "label": v.fields.Get("label"),
		"customer": v.fields.Get("customer"),
	})
	key, fault := dataOf[api.MadeKey](v, v.admin(call))
	if fault != nil {
		refuse(v, fault, showKeys)
		return
	}
	showMade(v, "The key was created", "", &key)
}

// showMade shows a new key, this once.
func showMade(v *visit, title, more string, key *api.MadeKey) {
	v.fields = nil
	v.notice = &page.Notice{
		Tone: page.Done, Title: title, Secret: key.Key,
		Detail: "Copy it now: it is not stored, and no other page shows it." + more,
	}
	showKeys(v)
}

// overlapField has the hours for which a key goes on that another one replaces.
const overlapField = "overlapHours"

// rollKey creates a key that replaces one, which goes on for a time, once that is confirmed.
func rollKey(v *visit) {
	const maximum = int(billing.MaxKeyOverlapMS / (60 * 60 * 1000))
	id := string(v.x.Param(2))
	hours, err := strconv.Atoi(cmp.Or(v.typed(overlapField), "24"))
	if err != nil || hours < 0 || hours > maximum {
		v.wrong(overlapField, "Enter hours from 0 to "+strconv.Itoa(maximum))
		showKeys(v)
		return
	}
	if !v.sure() {
		askRoll(v, id, hours)
		return
	}
	key, fault := dataOf[api.MadeKey](v, v.send("rollKey", map[string]any{overlapField: hours}, id))
	if fault != nil {
		refuse(v, fault, showKeys)
		return
	}
	more := " The old key is revoked."
	if key.ReplacedEndsAt.After(v.console.config.Now()) {
		more = " The old key ends at " + minuteOf(key.ReplacedEndsAt) +
			". Put this one in its place before."
	}
	showMade(v, "The key was replaced", more, &key)
}

// askRoll names the key that will be replaced, and when it ends.
func askRoll(v *visit, id string, hours int) {
	key, found := keyOf(v, id)
	if !found {
		showKeys(v)
		return
	}
	q := question{
		Title: "Replace the key " + key.Hint + "…?", Button: "Replace this key",
		Facts: keyFacts(&key), Back: v.base() + "/keys",
	}
	if hours == 0 {
		q.Danger, q.Notes = true, endNotes(v, &key)
		q.Facts = append(q.Facts, fact{"Ends", "at once"})
	} else {
		end := v.console.config.Now().Add(time.Duration(hours) * time.Hour)
		if !key.EndsAt.IsZero() && key.EndsAt.Before(end) {
			end = key.EndsAt
		}
		q.Facts = append(q.Facts, fact{"Ends", minuteOf(end)})
		q.Notes = []string{
			"Until then this key and the new one are both accepted. Then requests with this key are " +
				"refused, for good. " + linksNote,
		}
	}
	v.ask(q)
}

// minuteOf is an instant in words, to the minute.
func minuteOf(at time.Time) string { return page.When(at) + " UTC" }

// send carries out a row of an environment's row with a form's key and body.
func (v *visit) send(operation string, fields map[string]any, below ...string) server.Reply {
	call := v.adminCall(operation, below...)
	call.OnceKey = page.OnceKey(v.fields)
	if fields != nil {
		call.Body = body(fields)
	}
	return v.admin(call)
}
