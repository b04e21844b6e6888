package console

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"net/url"
	"strconv"
	"strings"
	"time"

	api "tollgate/sdk/go"
	"tollgate/server"
	"tollgate/server/console/page"
)

const (
	webhooksPath = "/accounts/{account}/{environment}/webhooks"
	webhookPath  = webhooksPath + "/{endpoint}"
)

func (s *Console) webhookRows() []row {
	return []row{
		look(webhooksPath, "webhooks", showWebhooks),
		form(webhooksPath, "create webhook", createWebhook),
		look(webhookPath, "webhook", showWebhook),
		look(webhookPath+"/deliveries/{message}", "webhook delivery", showDelivery),
		asking(webhookPath+"/rotate", "rotate webhook secret", askRotate, rotateWebhook),
		form(webhookPath+"/enable", "enable webhook", func(v *visit) {
			id, enabled, what := string(v.x.Param(2)), v.fields.Get("enabled") == "true", "disabled"
			if enabled {
				what = "enabled"
			}
			reply := v.send("updateWebhookEndpoint", map[string]any{"enabled": enabled}, id)
			v.finish(reply.Fault, showWebhook, v.webhookURL(id), what)
		}),
		asked(form(webhookPath+"/delete", "delete webhook", deleteWebhook)),
		form(webhookPath+"/resend", "resend webhook", func(v *visit) {
			id := string(v.x.Param(2))
			reply := v.send("resendWebhook", nil, id, v.fields.Get("message"))
			v.finish(reply.Fault, showWebhook, v.webhookURL(id), "resent")
		}),
		asked(form(webhookPath+"/resend-many", "resend webhooks", resendWebhooks)),
		form(webhookPath+"/test", "test webhook", func(v *visit) {
			id := string(v.x.Param(2))
			made, fault := dataOf[api.WebhookDelivery](v, v.send("testWebhook", nil, id))
			v.finish(fault, showWebhook, v.webhookURL(id)+"/deliveries/"+made.ID, "tested")
		}),
	}
}

// resendWebhooks sends the messages of some days once more.
func resendWebhooks(v *visit) {
	id := string(v.x.Param(2))
	fields, which := map[string]any{"status": "failed"}, "failed ones"
	if v.fields.Get("all") != "" {
		fields["status"], which = "all", "failed and delivered ones"
	}
	for _, name := range []string{"from", "to"} {
		text := v.typed(name)
		if text == "" && name == "to" {
			continue
		}
		at, err := time.Parse(time.DateOnly, text)
		if err != nil {
			v.wrong(name, "Enter a day, such as 2026-01-31")
			showWebhook(v)
			return
		}
		if name == "to" { // the last day
			at = at.AddDate(0, 0, 1)
		}
		fields[name] = written(at)
	}
	if !v.sure() {
		shown := need[api.WebhookEndpoint](v, v.admin, v.adminCall("showWebhookEndpoint", id))
		v.ask(question{
			Title: "Send these messages again?", Button: "Send them again", Back: v.webhookURL(id),
			Facts: []fact{
				{"Endpoint", shown.URL},
				{"Days", v.typed("from") + " to " + cmp.Or(v.typed("to"), "now") + " (UTC)"},
				{"Messages", which},
			},
			Notes: []string{"Each keeps its webhook-id, so your program can tell a repetition. Those that " +
				"wait already are left out."},
		})
		return
	}
	reply := v.send("resendWebhooks", fields, id)
	v.finish(reply.Fault, showWebhook, v.webhookURL(id), "many-resent")
}

func (v *visit) webhookURL(id string) string {
	return v.base() + "/webhooks/" + url.PathEscape(id)
}

type webhooksData struct {
	Base      string
	Manage    bool
	Endpoints []api.WebhookEndpoint
	Fields    url.Values
}

func showWebhooks(v *visit) {
	list := need[[]api.WebhookEndpoint](v, v.admin, v.adminCall("listWebhookEndpoints"))
	v.show(v.environmentPage("webhooks", "Webhooks", "Webhooks",
		"Programs receive events here: invoices, subscriptions, limits.",
		webhooksData{
			Base: v.base() + "/webhooks", Manage: v.manage, Endpoints: list, Fields: v.fields,
		}))
}

func createWebhook(v *visit) {
	fields := map[string]any{
		"url": v.fields.Get("url"), "description": v.fields.Get("description"),
	}
	if events := strings.Fields(v.fields.Get("events")); len(events) > 0 {
		fields["events"] = events
	}
	made, fault := dataOf[api.WebhookEndpoint](v, v.send("createWebhookEndpoint", fields))
	if fault != nil {
		refuse(v, fault, showWebhooks)
		return
	}
	v.fields = nil
	v.notice = endpointSecret("The endpoint was added", made.Secret)
	showWebhookOf(v, made.ID)
}

func rotateWebhook(v *visit) {
	id := string(v.x.Param(2))
	now, fault := dataOf[api.WebhookEndpoint](v, v.admin(v.adminCall("showWebhookEndpoint", id)))
	if fault == nil && written(now.PreviousSecretUntil) != v.fields.Get("replaced") {
		// The same form, sent twice: a second replacement would end the secret that is in use.
		v.notice = &page.Notice{
			Tone: page.Done, Title: "The secret was replaced before", Detail: "Nothing was changed now. " +
				"If you did not copy the new secret, replace it again.",
		}
		showWebhook(v)
		return
	}
	var made api.WebhookEndpoint
	if fault == nil {
		made, fault = dataOf[api.WebhookEndpoint](v, v.send("rotateWebhookSecret", nil, id))
	}
	if fault != nil {
		refuse(v, fault, showWebhook)
		return
	}
	v.notice = endpointSecret(
		"The secret was replaced; the one before it also signs for 24 hours", made.Secret)
	showWebhook(v)
}

func askRotate(v *visit) {
	id := string(v.x.Param(2))
	shown := need[api.WebhookEndpoint](v, v.admin, v.adminCall("showWebhookEndpoint", id))
	if !v.fields.Has("replaced") { // going back to the question replaces nothing again
		v.fields.Set("replaced", written(shown.PreviousSecretUntil))
	}
	v.ask(question{
		Title: "Replace the signing secret?", Button: "Replace the secret", Danger: true,
		Facts: []fact{{"Endpoint", shown.URL}},
		Notes: []string{"The present secret also signs for 24 hours. A secret replaced earlier " +
			"stops signing at once."},
		Back: v.webhookURL(id),
	})
}

func deleteWebhook(v *visit) {
	id := string(v.x.Param(2))
	if v.sure() {
		reply := v.send("deleteWebhookEndpoint", nil, id)
		v.finish(reply.Fault, showWebhooks, v.base()+"/webhooks", "webhook")
		return
	}
	shown := need[api.WebhookEndpoint](v, v.admin, v.adminCall("showWebhookEndpoint", id))
	v.ask(question{
		Title: "Remove the endpoint?", Button: "Remove the endpoint", Danger: true,
		Facts: []fact{{"Endpoint", shown.URL}, {"Waiting", strconv.Itoa(shown.Pending)}},
		Notes: []string{"Its log, its signing secret and its pending deliveries are removed with it."},
		Back:  v.webhookURL(id),
	})
}

type webhookData struct {
	visit      *visit
	Base       string
	Manage     bool
	Customer   string // whom the deliveries are about; empty: all
	Endpoint   api.WebhookEndpoint
	Chips      []page.Link
	Deliveries []api.WebhookDelivery
	CSV        string
	Pager      page.Pager
}

// Last is a delivery's last attempt; nil before the first. All of them are on its page: each can
// have many, which would make the list heavy.
func (d webhookData) Last(v api.WebhookDelivery) *api.WebhookAttempt {
	if len(v.Log) == 0 {
		return nil
	}
	return &v.Log[len(v.Log)-1]
}

// CustomerURL is a customer's page.
func (d webhookData) CustomerURL(id string) string { return d.visit.customerURL(id) }

// deliveryStates are the filters of deliveries.
var deliveryStates = []struct{ name, status string }{
	{"All", ""}, {"Failed", "failed"}, {"Waiting", "pending"}, {"Delivered", "delivered"},
}

// showWebhook is an endpoint with its deliveries.
func showWebhook(v *visit) { showWebhookOf(v, string(v.x.Param(2))) }

// deliveryCall asks for the deliveries that the page's address selects; keep are its parameters.
func deliveryCall(v *visit, id string) (call server.Call, keep url.Values) {
	call, keep = v.adminCall("listWebhookDeliveries", id), url.Values{}
	for _, name := range []string{"status", "customer"} {
		if value := v.query(name); value != "" {
			keep.Set(name, value)
		}
	}
	call.Query = maps.Clone(keep)
	return call, keep
}

func showWebhookOf(v *visit, id string) {
	call, keep := deliveryCall(v, id)
	status, customer := keep.Get("status"), keep.Get("customer")
	shown, list := withList[api.WebhookEndpoint, api.WebhookDeliveryPage](
		v, v.adminCall("showWebhookEndpoint", id), call)
	data := webhookData{
		visit: v, Base: v.webhookURL(id), Manage: v.manage, Customer: customer, Endpoint: shown,
		Deliveries: list.Deliveries,
	}
	for _, s := range deliveryStates {
		chip := page.Link{Text: s.name, URL: data.Base, Here: s.status == status}
		selected := url.Values{}
		if s.status != "" {
			selected.Set("status", s.status)
		}
		if customer != "" {
			selected.Set("customer", customer)
		}
		if len(selected) > 0 {
			chip.URL += "?" + selected.Encode()
		}
		data.Chips = append(data.Chips, chip)
	}
	data.Pager = v.pages(data.Base, list.NextCursor, keep).Of(len(list.Deliveries), "delivery")
	data.CSV = data.Base + "/deliveries.csv?" + keep.Encode()
	p := v.environmentPage("webhook", "Webhooks", "Webhook endpoint", shown.URL, data)
	v.show(v.below(p, "Webhooks", v.base()+"/webhooks"))
}

// deliveryData is a message on its way to an endpoint.
type deliveryData struct {
	Base        string
	Manage      bool
	Delivery    api.WebhookDelivery
	CustomerURL string
	// Payload is what is sent, Sent the Unix time of the newest attempt; 0 before the first.
	Payload string
	Sent    int64
}

// showDelivery is a delivery with its payload and what each attempt was answered.
func showDelivery(v *visit) {
	id := string(v.x.Param(2))
	shown := need[api.WebhookDelivery](v, v.admin,
		v.adminCall("showWebhookDelivery", id, string(v.x.Param(3))))
	data := deliveryData{Base: v.webhookURL(id), Manage: v.manage, Delivery: shown}
	data.CustomerURL = v.customerURL(shown.CustomerReferenceID)
	if n := len(shown.Log); n > 0 { // an attempt's time is that of its end
		last := shown.Log[n-1]
		data.Sent = last.At.Add(-time.Duration(last.TookMs) * time.Millisecond).Unix()
	}
	var text bytes.Buffer
	if len(shown.Payload) > 0 && json.Indent(&text, shown.Payload, "", "  ") == nil {
		data.Payload = text.String()
	}
	p := v.environmentPage("delivery", "Webhooks", shown.Type, "", data)
	v.show(v.below(p, "Webhook endpoint", data.Base))
}
