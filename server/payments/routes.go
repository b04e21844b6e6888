package payments

import (
	"context"
	"errors"
	"net/url"
	"regexp"

	"tollgate/engine/billing"
	"tollgate/server"
	"tollgate/server/link"
	"tollgate/server/provider/payment"
)

// formLimit bounds the sandbox page's forms in bytes.
const formLimit = 4096

// Routes are the rows of the public listener that belong to payments: the providers' webhooks, the
// sandbox's page, and where payers come back to.
func (d *Service) Routes() []server.Route {
	const base = Prefix + "/{account}/{environment}"
	row := func(method, path, operation string,
		handle func(x *server.Exchange, at Place) *server.Fault,
	) server.Route {
		return server.Row(method, base+path, operation, "", server.AccessOpen, d.within(handle))
	}
	hook := row("POST", "/webhook", "receivePaymentWebhook", d.webhook)
	hook.Limit = payment.MaxWebhook
	act := row("POST", "/sandbox/{token}", "actOnSandboxPage", d.page)
	act.Limit, act.Media = formLimit, []string{"application/x-www-form-urlencoded"}
	return []server.Route{
		hook, row("GET", "/sandbox/{token}", "showSandboxPage", d.page), act,
		server.Row("GET", base+"/return", "showReturnPage", "", server.AccessOpen,
			func(x *server.Exchange) *server.Fault {
				back := ""
				if from := x.Ctx.Request.Header.Cookie(PortalCookie); portalLink.Match(from) {
					back = link.Root + "/" + string(from)
				}
				return x.PaidPage("The invoice", "paid", back)
			}),
	}
}

// PortalCookie is how the browser knows which pages of the customer portal a payment began at. Its
// value is their link, and it is sent to the paths of this package alone.
const PortalCookie = "tollgate_portal"

// portalLink has the form of a link, and no character that means something in a page.
var portalLink = regexp.MustCompile(`^[A-Za-z0-9_-]{40,200}$`)

// within is the handler of what is about the environment that a path names.
func (d *Service) within(
	handle func(x *server.Exchange, at Place) *server.Fault,
) func(*server.Exchange) *server.Fault {
	return func(x *server.Exchange) *server.Fault {
		at := Place{Account: string(x.Param(0))}
		switch string(x.Param(1)) {
		case "live":
			at.Kind = billing.EnvironmentLive
		case "sandbox":
			at.Kind = billing.EnvironmentSandbox
		}
		var ok bool
		if at.Env, ok = d.machine.Environment(at.Account, at.Kind); !ok {
			return server.FaultNotFound
		}
		return handle(x, at)
	}
}

func (d *Service) webhook(x *server.Exchange, at Place) *server.Fault {
	header := func(name string) string { return string(x.Ctx.Request.Header.Peek(name)) }
	err := d.Receive(at, header, x.Body)
	var refusal *Refusal
	switch {
	case err == nil:
		return x.Succeed(200)
	case errors.As(err, &refusal):
		fault := server.NewFault(refusal.Status, refusal.Code, "The webhook was not accepted")
		if refusal.Status == 503 {
			fault.RetryAfter = 1
		}
		return fault
	}
	d.config.Log.Error("a webhook failed", "account", at.Account, "error", err)
	return server.FaultInternal
}

// page shows the sandbox's page, or carries out its form.
func (d *Service) page(x *server.Exchange, at Place) *server.Fault {
	sandbox := d.sandbox(at)
	if sandbox == nil {
		return server.FaultNotFound
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*writeTimeout)
	defer cancel()
	token := string(x.Param(2))
	if x.Route.Method == "GET" {
		return answer(x, sandbox.Page(ctx, token))
	}
	form, err := url.ParseQuery(string(x.Body))
	if err != nil {
		return server.FaultFields.With("the form is not encoded correctly")
	}
	return answer(x, sandbox.Act(ctx, token, form))
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

func answer(x *server.Exchange, a payment.Answer) *server.Fault {
	x.Bare(a.Status, "text/html; charset=utf-8", a.Body)
	return x.Headers(a.Header)
}
