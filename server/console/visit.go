package console

import (
	"cmp"
	"maps"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tollgate/engine/billing"
	api "tollgate/sdk/go"
	"tollgate/server"
	"tollgate/server/client"
	"tollgate/server/console/bill"
	"tollgate/server/console/page"
	"tollgate/server/console/spend"
)

// number is an exact number of an answer.
type number = bill.Number

// adminCall calls a row of the admin API below this visit's environment; below names further
// parameters of its path.
func (v *visit) adminCall(operation string, below ...string) server.Call {
	return server.Call{
		Operation: operation, Path: append([]string{v.account, v.environment}, below...),
		Actor: v.who.Name,
	}
}

// admin carries out a row of the admin API.
func (v *visit) admin(c server.Call) server.Reply {
	c.Stale = v.stale
	return v.console.config.Admin.Call(c)
}

// client carries out a row of the client API for this visit's environment.
func (v *visit) client(c server.Call) server.Reply {
	c.Actor, c.Stale = cmp.Or(v.who.Name, server.AdminKey), v.stale
	c.Caller = &client.Caller{
		Account: v.account, Env: v.env, Environment: environments[v.environment],
		Scope: billing.ScopeFull,
	}
	return v.console.config.Client.Call(c)
}

// dataOf reads the data of a reply.
func dataOf[T any](v *visit, r server.Reply) (data T, fault *server.Fault) {
	if r.Fault != nil {
		return data, r.Fault
	}
	if err := (api.Answer{Body: r.Body}).Data(&data); err != nil {
		v.console.config.Log.Error("an answer cannot be read", "error", err,
			"request_id", string(v.x.RequestID()))
		return data, server.FaultInternal
	}
	return data, nil
}

// need is what a row answers that a page cannot do without. The first fault is answered where the
// page would be shown; nothing is asked after it.
func need[T any](v *visit, ask func(server.Call) server.Reply, c server.Call) (data T) {
	if v.fault == nil {
		data, v.fault = dataOf[T](v, ask(c))
	}
	return data
}

// fails answers with what kept the page from being read; false where nothing did.
func (v *visit) fails() bool {
	if v.fault != nil {
		v.x.Refuse(v.fault)
	}
	return v.fault != nil
}

// written is a time as the APIs write it; empty for none.
func written(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return string(server.AppendTime(nil, at.UnixMilli()))
}

// withList is a record and a page of its items, from two rows.
func withList[R, L any](v *visit, record, list server.Call) (R, L) {
	return need[R](v, v.admin, record), need[L](v, v.admin, v.paged(list, "50"))
}

// body writes a form's fields as a request's body. Fields that were left empty are not in it.
func body(fields map[string]any) []byte {
	for name, value := range fields {
		if value == "" || value == nil {
			delete(fields, name)
		}
	}
	text, err := json.Marshal(fields, json.Deterministic(true))
	if err != nil {
		return nil // texts, numbers and flags only; the row refuses an empty body
	}
	return text
}

// literal is a number of a form as it was typed, for a body; other input becomes a string, which
// the row refuses.
func literal(text string) any {
	text = strings.TrimSpace(text)
	n := jsontext.Value(text)
	if text == "" {
		return nil
	}
	if !n.IsValid() || n.Kind() != '0' {
		return text
	}
	return n
}

// query reads a parameter of the page's address.
func (v *visit) query(name string) string { return string(v.x.Ctx.QueryArgs().Peek(name)) }

// base is the path of this visit's environment.
func (v *visit) base() string {
	return environmentURL(v.account, v.environment)
}

// paged adds the page's own cursor to a call.
func (v *visit) paged(c server.Call, limit string) server.Call {
	if c.Query == nil {
		c.Query = url.Values{}
	}
	c.Query.Set("limit", limit)
	if cursor := v.query("cursor"); cursor != "" {
		c.Query.Set("cursor", cursor)
	}
	return c
}

// listPage is how many rows a page shows of a list that its row answers whole.
const listPage = 50

// pageOf is the part of such a list that the page's address names, and the way to the others; keep
// are parameters that stay, what is the name of a row.
func pageOf[T any](
	v *visit, at string, list []T, keep url.Values, what string,
) ([]T, page.Pager) {
	from, _ := strconv.Atoi(v.query("cursor"))
	from = min(max(from, 0), len(list))
	to, next := min(from+listPage, len(list)), ""
	if to < len(list) {
		next = strconv.Itoa(to)
	}
	return list[from:to], v.pages(at, next, keep).Within(from, to-from, len(list), what)
}

// inRange sets the range of days that the page's address has; the last one is in it.
func inRange(v *visit, query url.Values) {
	for _, name := range []string{"from", "to"} {
		text := v.query(name)
		if text == "" {
			continue
		}
		if at, err := time.Parse(time.DateOnly, text); err == nil {
			if name == "to" {
				at = at.AddDate(0, 0, 1)
			}
			text = written(at)
		}
		query.Set(name, text)
	}
}

// withParam is a query with another value of a parameter; empty leaves it out.
func withParam(query url.Values, name, value string) url.Values {
	changed := maps.Clone(query)
	if changed.Del(name); value != "" {
		changed.Set(name, value)
	}
	return changed
}

// csvOf is the address of a list as a file: of the query of this page, which these parameters make.
func csvOf(v *visit, list string, names ...string) string {
	query := url.Values{}
	for _, name := range names {
		if text := v.query(name); text != "" {
			query.Set(name, text)
		}
	}
	at := v.base() + "/" + list + ".csv"
	if len(query) > 0 {
		at += "?" + query.Encode()
	}
	return at
}

// pages makes the pager of a list at a path; keep are parameters that stay.
func (v *visit) pages(path, next string, keep url.Values) (p page.Pager) {
	if v.query("cursor") != "" {
		p.First = path
		if len(keep) > 0 {
			p.First += "?" + keep.Encode()
		}
	}
	if next != "" {
		query := url.Values{"cursor": {next}}
		for name, values := range keep {
			query[name] = values
		}
		p.Next = path + "?" + query.Encode()
	}
	return p
}

// show answers with a page of this visit.
func (v *visit) show(p page.View) {
	if !v.fails() {
		v.frame(&p)
		v.console.site.Show(v.x, cmp.Or(v.status, 200), &p)
	}
}

// fragment answers with a part of a page, for the script.
func (v *visit) fragment(name, part string, data any) {
	if !v.fails() {
		v.console.site.Fragment(v.x, name, part, data)
	}
}

// frame adds what every page has: sections, who is signed in, what just happened.
func (v *visit) frame(p *page.View) {
	p.Token, p.SignOut = v.who.Token, Root+"/sign-out"
	if p.Who = v.who.Name; p.Who == "" {
		p.Who = "admin key"
	} else if v.stale {
		p.SignOut = "" // all nodes would have to know
	}
	if v.stale {
		p.Old = page.Outdated(v.console.config.Now(), v.console.config.Reader.Staleness())
		if everything, _ := v.who.on(""); everything {
			p.Old.Next = page.Link{Text: "Look at the cluster", URL: Root + "/cluster"}
		}
	}
	if p.Place = v.environment; p.Place == "sandbox" {
		p.Clock = string(server.AppendTime(nil, v.console.config.Machine.EnvironmentNow(
			v.env, v.console.config.Now().UnixMilli())))
	}
	if v.environment != "" {
		p.At, p.Others = v.account, v.others()
		p.Search, p.Seek = v.base()+"/search", "Customer, invoice, event"
	}
	at := string(v.x.Ctx.Path())
	section := func(text, path string) {
		here := strings.HasPrefix(at, path) && path != Root || at == path ||
			path == Root && strings.HasPrefix(at, Root+"/accounts") ||
			path == Root+"/cluster" && at == Root+"/node"
		p.Nav = append(p.Nav, page.Link{Text: text, URL: path, Here: here})
	}
	section("Accounts", Root)
	if everything, _ := v.who.on(""); everything {
		section("Cluster", Root+"/cluster")
		section("Workspaces", Root+"/workspaces")
		section("Changes", Root+"/changes")
	}
	if p.Notice = v.notice; p.Notice == nil {
		p.Notice = v.happened()
	} else {
		p.Fields, p.Wrong = v.fields, v.wrongs
	}
}

// done are the words for what a form did; the address names one, and nothing else is ever shown.
var done = map[string]page.Notice{
	"account":   {Title: "The account was created", Detail: "It has a live and a sandbox environment. Next: a catalog, then a key."},
	"revoked":   {Title: "The key was revoked", Detail: "Requests with it are refused from now on."},
	"catalog":   {Title: "The catalog was applied"},
	"customer":  {Title: "The customer was created", Detail: "Next: subscribe them to a plan."},
	"details":   {Title: "The customer's details were changed", Detail: "Invoices show them from now on."},
	"subscribe": {Title: "The subscription was created", Detail: "Its first invoice is below."},
	"cancel":    {Title: "The cancellation was recorded"},
	"plan":      {Title: "The change of plan was recorded"},
	"kept":      {Title: "The cancellation was reverted", Detail: "The subscription renews as before."},
	"stays":     {Title: "The scheduled change of plan was dropped"},
	"usage":     {Title: "The usage was recorded"},
	"event-void": {
		Title: "The event was voided", Detail: "It no longer counts. Its key stays used.",
	},
	"event-amended": {Title: "The event was amended"},
	"paid":          {Title: "The invoice was marked as paid"},
	"void":          {Title: "The invoice is void"},
	"pool":          {Title: "The pool was created", Detail: "Next: grant credits to it."},
	"credits":       {Title: "The credits were booked"},
	"top-up":        {Title: "The automatic top-up was set"},
	"no-top-up":     {Title: "The automatic top-up was turned off"},
	"top-up-ended": {
		Title: "The purchase was ended", Detail: "Nothing is bought until the top-up is set again.",
	},
	"low-balance": {
		Title: "The low balance was set", Detail: "The webhook credits.low tells it from now on.",
	},
	"enabled": {Title: "The endpoint was enabled", Detail: "Pending deliveries are sent now."},
	"disabled": {
		Title:  "The endpoint was disabled",
		Detail: "Pending deliveries wait until the endpoint is enabled.",
	},
	"freezePool":   {Title: "The pool was frozen", Detail: "Usage takes nothing from it."},
	"unfreezePool": {Title: "The pool was unfrozen"},
	"workspace":    {Title: "The workspace was changed", Detail: "The change is below, with who made it."},
	"webhook":      {Title: "The endpoint was removed"},
	"resent":       {Title: "The message will be sent once more"},
	"many-resent": {
		Title: "The messages will be sent once more", Detail: "Those that still wait are pending below.",
	},
	"tested":            {Title: "A test message was sent", Detail: "Reload this page to see what the endpoint answers."},
	"clock":             {Title: "The clock was advanced"},
	"seller":            {Title: "The seller was saved", Detail: "Invoices show it from now on."},
	"terms":             {Title: "The payment terms were saved"},
	"origins":           {Title: "The allowed origins were saved"},
	"links":             {Title: "The portal links were ended"},
	"portal":            {Title: "The portal was saved"},
	"frozen":            {Title: "The budget was frozen", Detail: "Nothing is taken at it or below it."},
	"unfrozen":          {Title: "The budget was unfrozen"},
	"archived":          {Title: "The budget was archived"},
	"archived-customer": {Title: "The customer was archived"},
	"erased":            {Title: "The customer's personal data was erased"},
	"moved":             {Title: "The budget was moved"},
	"budget":            {Title: "The budget was created"},
	"limits":            {Title: "The budget was changed"},
	"bound":             {Title: "The key's budget was set"},
	"reserved":          {Title: "The units are reserved", Detail: "Settle what is used of them below."},
	"settled":           {Title: "The reservation was settled"},
	"settled-part":      {Title: "A part of the reservation was settled", Detail: "The rest stays held."},
	"released":          {Title: "The reservation was released"},
	"extended":          {Title: "The reservation was extended"},
}

// happened is what the form before this page did, from a fixed list.
func (v *visit) happened() *page.Notice {
	if notice, known := done[v.query("done")]; known {
		notice.Tone = page.Done
		return &notice
	}
	return nil
}

// finish ends a form: errors are shown on the page that again shows, success on the page that is
// next.
func (v *visit) finish(fault *server.Fault, again func(*visit), next, what string) {
	if fault != nil {
		refuse(v, fault, again)
		return
	}
	separator := "?"
	if strings.Contains(next, "?") {
		separator = "&"
	}
	v.console.site.Redirect(v.x, next+separator+"done="+what)
}

// refuse shows an error on the page that again shows.
func refuse(v *visit, fault *server.Fault, again func(*visit)) {
	v.problem(fault)
	again(v)
}

// problem shows an error on the page.
func (v *visit) problem(fault *server.Fault) {
	v.notice, v.status = noticeOf(fault), fault.Status
	if fault.Code == server.FaultFields.Code {
		if v.wrongs = wrongFields(fault.Fields, v.fields); len(v.wrongs) > 0 {
			v.notice.Title, v.notice.Detail = refusedForm, v.wrongs[0].Text+"."
			if !v.x.Ctx.IsGet() {
				v.notice.Detail = "Nothing was changed. " + v.notice.Detail
			}
		}
	}
}

// pageNotFound is what people are told where no page is.
const pageNotFound = "Page not found"

const refusedForm = "The form has a mistake"

// wrong shows the problem of a form's field on the page.
func (v *visit) wrong(name, text string) {
	v.status, v.wrongs = 400, []page.Wrong{{Name: name, Text: text}}
	v.notice = &page.Notice{
		Tone: page.Problem, Title: refusedForm, Detail: "Nothing was changed. " + text + ".",
	}
}

// formNames are the names that fields of the APIs have in forms, where they are others.
var formNames = map[string]string{
	"externalClientCustomerId": "id", "firstName": "first", "lastName": "last", "phoneNumber": "phone",
	"usageUnits": "units", "advanceTo": "to", "capCents": "cents", "accentColour": "colour",
	"expiresInMinutes": "minutes", "amount": "credits", "monthlyCap": "cap",
	"paymentMethod": "card", "cooldownSeconds": "cooldown", "expiresAfterDays": "expires",
	"customerReferenceId": "customer", "ttlSeconds": "hold",
}

// wrongFields are the form's fields that an API's error names.
func wrongFields(all []server.FieldError, fields url.Values) (wrongs []page.Wrong) {
	for _, problem := range all {
		name := spend.FieldOf(problem.Field)
		if renamed := formNames[name]; fields[renamed] != nil {
			name = renamed
		}
		text := strings.TrimPrefix(problem.Message, problem.Field+" ")
		if _, typed := fields[name]; !typed || text == "" {
			continue
		}
		if problem.Code == server.FieldType { // what is typed is a text, or should be a number
			text = "enter a number, such as 1200"
		}
		wrongs = append(wrongs, page.Wrong{Name: name, Text: strings.ToUpper(text[:1]) + text[1:]})
	}
	return wrongs
}

// programsOnly is what errors tell programs: the entry of the log that decided, and about the key
// of a request that people do not know of.
var programsOnly = regexp.MustCompile(` Log index \d+\.|(,| and|;)+ its key may be used again`)

// limitNumbers are the numbers that errors about limits have: "1000 used and 0 held of 12000".
var limitNumbers = []*regexp.Regexp{
	regexp.MustCompile(`\d{4,}(\.\d+)? (used|held)\b`),
	regexp.MustCompile(`\b(used|held|limit|asked for|held of|held [\d.,]+ of) \d{4,}`),
}

// forPeople is an error's text as a page has it: numbers are written as they are on pages.
func forPeople(text string) string {
	text = programsOnly.ReplaceAllString(text, "")
	for _, numbers := range limitNumbers {
		text = numbers.ReplaceAllStringFunc(text, func(part string) string {
			words := strings.Split(part, " ")
			for i, word := range words {
				if '0' <= word[0] && word[0] <= '9' && !strings.Contains(word, ",") {
					words[i] = page.Amount(word)
				}
			}
			return strings.Join(words, " ")
		})
	}
	return text
}

func noticeOf(fault *server.Fault) *page.Notice {
	n := &page.Notice{Tone: page.Problem, Title: fault.Message, Detail: forPeople(fault.Detail)}
	switch fault.Code {
	case server.FaultNotFound.Code:
		if fault.Message == server.FaultNotFound.Message {
			n.Title, n.Detail = pageNotFound, ""
		}
	case "unavailable":
		n.Detail = "This node cannot reach a majority of the cluster now. Load the page again in a " +
			"moment; the Cluster page shows which nodes answer."
	case "outcome_unknown":
		n.Detail = "The change may have been made, or not. Look at the page first; the same form may " +
			"be sent again and is carried out once."
	}
	return n
}

// showFault shows a refusal as a page.
func (s *Console) showFault(x *server.Exchange, f *server.Fault) bool {
	v := &visit{console: s, x: x, notice: noticeOf(f)}
	p := page.View{Page: "problem", Title: f.Message, Plain: true}
	var err error
	if v.who, err = s.operators.Operator(x, true); err == nil { // it is there without a leader
		if p.Plain = false; place(v) {
			p = v.environmentPage(p.Page, tabOf(v), p.Title, "", nil)
		}
		v.frame(&p)
	}
	p.Title, p.Notice = "That did not work", v.notice
	to := page.Link{Text: "Back to the accounts", URL: Root}
	if v.environment != "" {
		to = page.Link{Text: "Back to the overview", URL: v.base() + "/overview"}
	}
	switch {
	case f.Code == faultSignedOut.Code || p.Plain:
		to = page.Link{Text: "Sign in", URL: signInPath}
	case f.Code == server.FaultConsistency.Code:
		if everything, _ := v.who.on(""); everything {
			to = page.Link{Text: "Look at the cluster", URL: Root + "/cluster"}
		}
	}
	p.Data = to
	s.site.Show(x, f.Status, &p)
	return true
}
