package cli

import (
	"context"
	"errors"
	"io"
	"strconv"

	api "tollgate/sdk/go"
)

type paymentsCommand struct {
	Show   call[environmentOutput, paymentProvider] `cmd:"" call:"GET payment-provider" help:"Show the payment provider of an environment."`
	Set    paymentsSetCommand                       `cmd:"" help:"Choose the payment provider: none, sandbox (built in, for tests) or stripe."`
	Terms  paymentsTermsCommand                     `cmd:"" help:"Show when invoices are issued and fall due, or set it."`
	Record call[recordFlags, none]                  `cmd:"" call:"POST /billing/invoices/{Invoice}/mark-paid" says:"Invoice {Invoice} is paid." help:"Record that an invoice was paid outside of the provider, for good."`
	List   call[paymentsFlags, payments]            `cmd:"" call:"GET invoices/{Invoice}/payments" help:"List the payments that providers reported for an invoice."`
}

type recordFlags struct {
	inClientOnce `embed:""`
	Invoice      string `arg:"" help:"The invoice's id, from invoice list."`
	Note         string `json:"note,omitempty" help:"How it was paid; kept in the record of changes."`
}

// paymentProvider is who collects invoices, without secrets.
type paymentProvider struct{ api.PaymentProvider }

func (v *paymentProvider) print(out io.Writer) error {
	t := NewTable(out)
	t.Row("Provider", v.Provider)
	t.Row("Address", either(v.BaseURL, "its own"))
	t.Row("Secrets set", strconv.FormatBool(v.SecretsSet))
	t.Row("Webhooks arrive at", v.WebhookPath)
	for _, p := range v.Previous {
		t.Row("Still heard of", p.Provider+", replaced "+moment(p.ReplacedAt)+", until "+
			moment(p.TrustedUntil))
	}
	return t.End()
}

type paymentsSetCommand struct {
	inEnvironment  `embed:""`
	Provider       string `arg:"" enum:"none,sandbox,stripe" help:"none, sandbox or stripe."`
	BaseURL        string `help:"Address of the provider's API, when it is not the usual one."`
	SecretKey      string `env:"TOLLGATE_PAYMENT_SECRET_KEY" help:"stripe: the secret key; better given by the variable."`
	WebhookSecret  string `env:"TOLLGATE_PAYMENT_WEBHOOK_SECRET" help:"stripe: the webhook's signing secret; better given by the variable."`
	ForgetPrevious bool   `help:"Stop using the previous settings at once, because one of their secrets leaked."`
}

// Run replaces the settings.
func (c *paymentsSetCommand) Run(ctx context.Context, out io.Writer) error {
	if c.Provider == "stripe" && (c.SecretKey == "" || c.WebhookSecret == "") {
		return errors.New("stripe needs both secrets, in TOLLGATE_PAYMENT_SECRET_KEY and " +
			"TOLLGATE_PAYMENT_WEBHOOK_SECRET; nothing was changed")
	}
	body := map[string]any{"provider": c.Provider, "forgetPrevious": c.ForgetPrevious}
	for name, value := range map[string]string{
		"baseUrl": c.BaseURL, "secretKey": c.SecretKey, "webhookSecret": c.WebhookSecret,
	} {
		if value != "" && c.Provider == "stripe" {
			body[name] = value
		}
	}
	var set api.TrustedProviders
	if _, err := c.send(ctx, "PUT", c.path()+"/payment-provider", body, &set); err != nil {
		return err
	}
	for _, p := range set.Previous {
		if err := Say(out, "Settings before (%s, replaced %s) are trusted until %s.", p.Provider,
			moment(p.ReplacedAt), moment(p.TrustedUntil)); err != nil {
			return err
		}
	}
	if len(set.Previous) > 0 {
		if err := Say(out, "To forget them at once, because a secret became known, set the same again "+
			"with --forget-previous."); err != nil {
			return err
		}
	}
	return Say(out, "Invoices of %s/%s are collected through: %s.", c.Account, c.Environment,
		c.Provider)
}

type paymentsTermsCommand struct {
	inEnvironment `embed:""`
	Days          *uint32 `arg:"" optional:"" help:"Invoices fall due this many days after their issue, 0 to 365; those that are issued already keep their due dates."`
	Settle        *uint32 `placeholder:"MINUTES" help:"The invoice of a period is issued this many minutes after its end, 0 to 10080, and has the usage that comes late until then."`
}

// Run shows or sets the payment terms.
func (c *paymentsTermsCommand) Run(ctx context.Context, out io.Writer) error {
	path := c.path() + "/payment-terms"
	if c.Days != nil || c.Settle != nil {
		change := struct {
			Days   *uint32 `json:"paymentTermDays,omitempty"`
			Settle *uint32 `json:"settleMinutes,omitempty"`
		}{c.Days, c.Settle}
		if _, err := c.send(ctx, "PUT", path, change, nil); err != nil {
			return err
		}
	}
	var terms api.PaymentTerms
	if _, err := c.read(ctx, path, &terms); err != nil {
		return err
	}
	return Say(out, "Invoices of %s/%s are issued %d minutes after their period's end, and fall due "+
		"%d days after their issue.", c.Account, c.Environment, terms.SettleMinutes,
		terms.PaymentTermDays)
}

type paymentsFlags struct {
	environmentOutput `embed:""`
	Invoice           string `arg:"" help:"The invoice's id, from invoice list."`
}

type payments []api.Payment

func (l payments) print(out io.Writer) error {
	t := NewTable(out, "AT", "PROVIDER", "EVENT", "AMOUNT", "RESULT", "REPORTED")
	for _, p := range l {
		t.Row(moment(p.RecordedAt), p.Provider, p.EventID, money(p.Amount, p.Currency), p.Result,
			either(p.Type, "payment"))
	}
	return t.End()
}
