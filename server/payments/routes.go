package payments

import (
	"context"
	"errors"
	"net/url"

	"tollgate/engine/billing"
	"tollgate/server"
	"tollgate/server/provider/payment"
)

// formLimit bounds the sandbox page's forms in bytes.
const formLimit = 4096

// Routes are the rows of the public listener that belong to payments: the providers' webhooks, the
// sandbox's page, and where payers come back to.
func (d *Service) Routes() []server.Route {
	base := Prefix + "/{account}/{environment}"
	return []server.Route{
		{
			Method: "POST", Path: base + "/webhook", Operation: "receivePaymentWebhook",
			Access: server.AccessOpen, Limit: payment.MaxWebhook, Handle: d.webhook,
		},
		{
			Method: "GET", Path: base + "/sandbox/{token}", Operation: "showSandboxPage",
			Access: server.AccessOpen, Handle: d.page,
		},
		{
			Method: "POST", Path: base + "/sandbox/{token}", Operation: "actOnSandboxPage",
			Access: server.AccessOpen, Limit: formLimit, Handle: d.page,
			Media: []string{"application/x-www-form-urlencoded"},
		},
		{
			Method: "GET", Path: base + "/return", Operation: "showReturnPage",
			Access: server.AccessOpen,
			Handle: func(x *server.Exchange) { x.PaidPage("The invoice", "paid") },
		},
	}
}

// place finds the environment that a path names.
func (d *Service) place(x *server.Exchange) (Place, bool) {
	at := Place{Account: string(x.Param(0))}
	switch string(x.Param(1)) {
	case "live":
		at.Kind = billing.EnvironmentLive
	case "sandbox":
		at.Kind = billing.EnvironmentSandbox
	}
	var ok bool
	if at.Env, ok = d.machine.Environment(at.Account, at.Kind); !ok {
		x.Refuse(server.FaultNotFound)
	}
	return at, ok
}

func (d *Service) webhook(x *server.Exchange) {
	at, ok := d.place(x)
	if !ok {
		return
	}
	header := func(name string) string { return string(x.Ctx.Request.Header.Peek(name)) }
	err := d.Receive(at, header, x.Body)
	var refusal *Refusal
	switch {
	case err == nil:
		x.Succeed(200)
	case errors.As(err, &refusal):
		fault := server.NewFault(refusal.Status, refusal.Code, "The webhook was not accepted")
		if refusal.Status == 503 {
			fault.RetryAfter = 1
		}
		x.Refuse(fault)
	default:
		d.config.Log.Error("a webhook failed", "account", at.Account, "error", err)
		x.Refuse(server.FaultInternal)
	}
}

// page shows the sandbox's page, or carries out its form.
func (d *Service) page(x *server.Exchange) {
	at, ok := d.place(x)
	if !ok {
		return
	}
	sandbox := d.sandbox(at)
	if sandbox == nil {
		x.Refuse(server.FaultNotFound)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*writeTimeout)
	defer cancel()
	token := string(x.Param(2))
	if x.Route.Method == "GET" {
		answer(x, sandbox.Page(ctx, token))
		return
	}
	form, err := url.ParseQuery(string(x.Body))
	if err != nil {
		x.Refuse(server.FaultFields.With("the form is not encoded correctly"))
		return
	}
	answer(x, sandbox.Act(ctx, token, form))
}

// sandbox is the environment's sandbox provider, even if another one replaced it: its pages can be
// paid as long as any. nil: it has none.
func (d *Service) sandbox(at Place) *payment.Sandbox {
	for _, settings := range d.settings(at.Env) {
		if settings.Provider != billing.ProviderSandbox {
			continue
		}
		if made, err := d.providerOf(at, &settings); err == nil {
			return made.(*payment.Sandbox)
		}
	}
	return nil
}

func answer(x *server.Exchange, a payment.Answer) {
	x.Bare(a.Status, "text/html; charset=utf-8", a.Body)
	x.Headers(a.Header)
}
