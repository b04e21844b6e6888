package enginetest

import (
	"fmt"
	"strings"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/wire"
)

// platformLines are the commands around billing: profiles, keys, payments, the record of changes.
type platformLines struct{ *scenario }

// profile changes what it names of a customer: profile CUSTOMER [first=] [last=] [email=] [phone=]
// [address=] [no-phone] [no-address] [blank-phone] [blank-address].
func (s platformLines) profile(l *line) string {
	c := &billing.UpdateCustomer{Env: s.environment(l)}
	for _, f := range []struct {
		name string
		bit  uint8
		dst  *string
	}{
		{"first", billing.CustomerFirstName, &c.FirstName},
		{"last", billing.CustomerLastName, &c.LastName},
		{"email", billing.CustomerEmail, &c.Email},
		{"phone", billing.CustomerPhoneNumber, &c.PhoneNumber},
		{"address", billing.CustomerAddress, &c.Address},
	} {
		if *f.dst = l.value(f.name, ""); *f.dst != "" || l.has("no-"+f.name) {
			c.Set |= f.bit
		}
		if l.has("blank-" + f.name) {
			c.Set, c.Blank = c.Set|f.bit, c.Blank|f.bit
		}
	}
	c.ExternalID = l.word(0)
	return s.do(billing.KindUpdateCustomer, c)
}

// person prints a customer's profile.
func (s platformLines) person(l *line) string {
	v, ok := s.m.Customer(s.environment(l), l.word(0))
	if !ok {
		return "unknown"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s", v.FirstName, v.LastName, v.Email)
	b.WriteString(when(v.HasPhoneNumber, " phone=%q", v.PhoneNumber))
	b.WriteString(when(v.HasAddress, " address=%q", v.Address))
	b.WriteString(when(v.ArchivedAt != 0, " archived %s", show(v.ArchivedAt)))
	b.WriteString(when(v.ErasedAt != 0, " erased %s", show(v.ErasedAt)))
	fmt.Fprintf(&b, "\nmodified %s", show(v.ModifiedAt))
	return b.String()
}

func (s platformLines) archive(l *line) string {
	return s.do(billing.KindArchiveCustomer, &billing.ArchiveCustomer{
		Env: s.environment(l), Actor: l.value("actor", ""), ExternalID: l.word(0),
	})
}

func (s platformLines) erase(l *line) string {
	return s.do(billing.KindEraseCustomer, &billing.EraseCustomer{
		Env: s.environment(l), Actor: l.value("actor", "ops"), ExternalID: l.word(0),
	})
}

// customerKey makes a key for one customer: customer-key TEXT CUSTOMER [id=].
func (s platformLines) customerKey(l *line) string {
	text, customer := l.word(0), l.word(1)
	return s.do(billing.KindCreateKey, &billing.CreateKey{
		Env: s.environment(l), ID: ID(l.value("id", text)), Hash: secret(text),
		Scope: billing.ScopeCustomer, Customer: customer, Hint: text, Actor: "ops",
	})
}

func (s platformLines) keys(l *printer) {
	for _, v := range s.m.Keys(s.environment(l.line)) {
		fmt.Fprintf(l, "%s %s", either(v.Hint, "-"), v.Scope)
		l.WriteString(when(v.Customer != "", " of %s", v.Customer))
		l.WriteString(when(v.RevokedAt != 0, " revoked %s", show(v.RevokedAt)))
		l.WriteString("\n")
	}
}

// setOrigins lists the origins of an environment: set-origins [ORIGIN…].
func (s platformLines) setOrigins(l *line) string {
	c := &billing.SetOrigins{Env: s.environment(l), Actor: "ops"}
	for n := 0; ; n++ {
		origin := l.word(n)
		if origin == "" {
			return s.do(billing.KindSetOrigins, c)
		}
		c.Origins = append(c.Origins, origin)
	}
}

// origins prints them: origins [listed=ORIGIN].
func (s platformLines) origins(l *line) string {
	if origin := l.value("listed", ""); origin != "" {
		return fmt.Sprint(s.m.OriginListed(origin))
	}
	return either(strings.Join(s.m.Origins(s.environment(l)), "\n"), "none")
}

// once carries out another command under an Idempotency-Key: once KEY body=TEXT customer NAME |
// subscribe CUSTOMER PLAN | pay SUBSCRIPTION | cancel SUBSCRIPTION | checkout SUBSCRIPTION [id=].
func (s platformLines) once(l *line) string {
	key, env := l.word(0), s.environment(l)
	name := l.value("id", l.word(2)+"/"+fmt.Sprint(s.mint()))
	c := &billing.Once{
		Env: env, Key: ID(fmt.Sprint("request ", env, key)), Body: ID(l.value("body", key)),
	}
	var inner wire.Fielder
	switch kind := l.word(1); kind {
	case "customer":
		c.Kind, inner = billing.KindCreateCustomer, &billing.CreateCustomer{
			Env: env, ID: ID("customer " + name), ExternalID: l.word(2),
		}
	case "subscribe":
		c.Kind, inner = billing.KindCreateSubscription, &billing.CreateSubscription{
			Env: env, ID: ID(name), InvoiceID: ID("invoice " + name), Customer: l.word(2),
			Plan: l.word(3), GraceDays: 7,
		}
	case "pay":
		c.Kind, inner = billing.KindMarkInvoicePaid, &billing.MarkInvoicePaid{
			Env: env, ID: ID("invoice " + l.word(2)),
		}
	case "cancel":
		c.Kind, inner = billing.KindCancelSubscription, &billing.CancelSubscription{
			Env: env, ID: ID(l.word(2)), Mode: billing.CancelAtPeriodEnd,
		}
	case "checkout":
		c.Kind, inner = billing.KindOpenCheckout, &billing.OpenCheckout{
			Env: env, ID: ID("checkout " + name), InvoiceID: ID("invoice " + l.word(2)),
		}
	default:
		l.d.Fatalf(l.t, "once does not know %q", kind)
	}
	l.used = len(l.d.CmdArgs) // some words were read twice
	c.Payload = wire.Encode(nil, inner)
	r := s.log.Do(billing.KindOnce, c)
	answer := s.outcome(r)
	if r.Outcome == engine.OutcomeDone {
		var reply billing.OnceReply
		l.decode(r.Value, &reply)
		answer += when(reply.Repeated, " repeated")
	}
	return answer
}

func (l *line) decode(value []byte, reply wire.Fielder) {
	if err := wire.Decode(value, reply); err != nil {
		l.d.Fatalf(l.t, "%v", err)
	}
}

// paymentProvider chooses an environment's payment provider: payment-provider [NAME] [url=]
// [secret=]; without a name it prints the one that is there.
func (s platformLines) paymentProvider(l *line) string {
	env, name := s.environment(l), l.word(0)
	if name == "" {
		p := s.m.PaymentSettings(env)
		return fmt.Sprintf("%s url=%q secrets=%t revision=%d", p.Provider, p.BaseURL,
			len(p.SecretKey) > 0, p.Revision)
	}
	return s.do(billing.KindSetPaymentProvider, &billing.SetPaymentProvider{
		Env: env, Provider: name, BaseURL: l.value("url", ""),
		SecretKey: []byte(l.value("secret", "")), Actor: "ops",
	})
}

// openCheckout notes that a hosted page is made for a subscription's initial invoice: open-checkout
// SUBSCRIPTION [id=].
func (s platformLines) openCheckout(l *line) string {
	name := l.word(0)
	return s.do(billing.KindOpenCheckout, &billing.OpenCheckout{
		Env: s.environment(l), ID: ID("checkout " + l.value("id", name)),
		InvoiceID: ID("invoice " + name),
	})
}

// noteCheckout keeps the provider's id of a checkout, or closes it: note-checkout ID [named=]
// [closed].
func (s platformLines) noteCheckout(l *line) string {
	return s.do(billing.KindNoteCheckout, &billing.NoteCheckout{
		ProviderID: l.value("named", ""), Closed: l.has("closed"), ID: ID("checkout " + l.word(0)),
	})
}

// checkouts lists what would be polled: checkouts PROVIDER.
func (s platformLines) checkouts(l *printer) {
	for _, c := range s.m.OpenCheckouts(l.word(0), 0, s.log.Stamp) {
		fmt.Fprintf(l, "%s asked %s\n", c.ProviderID, show(c.RequestedAt))
	}
}

// paid is what a provider reports: paid EVENT SUBSCRIPTION amount= [currency=] [checkout=]
// [provider=] [other=], about the subscription's initial invoice.
func (s platformLines) paid(l *line) string {
	c := &billing.RecordPayment{
		Env: s.environment(l), Provider: l.value("provider", "stripe"),
		CheckoutID: l.value("checkout", ""), Currency: l.value("currency", "USD"),
		Amount: l.decimal("amount", "0"), Other: l.value("other", ""),
	}
	c.EventID, c.InvoiceID = l.word(0), ID("invoice "+l.word(1))
	r := s.log.Do(billing.KindRecordPayment, c)
	answer := s.outcome(r)
	if r.Outcome == engine.OutcomeDone {
		var reply billing.PaymentReply
		l.decode(r.Value, &reply)
		answer += " " + reply.Result.String()
		answer += when(reply.Repeated, " repeated")
	}
	return answer
}

// payments lists what providers reported of a subscription's initial invoice.
func (s platformLines) payments(l *printer) {
	for _, p := range s.m.Payments(s.environment(l.line), ID("invoice "+l.word(0))) {
		fmt.Fprintf(l, "%s %s %s %s %s %s\n", show(p.At), p.EventID, either(p.CheckoutID, "-"),
			p.Amount, either(p.Currency, "-"), p.Result)
		l.WriteString(when(p.Other != "", "  %s\n", p.Other))
	}
}

// record prints the record of admin changes, newest first: record [limit=].
func (s platformLines) record(l *printer) {
	limit := int(l.number("limit", 10))
	changes, _, err := s.m.Changes(s.src, billing.ChangeQuery{Limit: limit, Scan: limit})
	l.must(err)
	for _, v := range changes {
		fmt.Fprintf(l, "%d %s %s %s", v.Number, show(v.At), v.Actor, v.Action)
		l.WriteString(when(v.Account != "", " %s", v.Account))
		l.WriteString("\n")
		for _, f := range v.Values {
			fmt.Fprintf(l, "  %s: %q → %q\n", f.Name, f.Before, f.After)
		}
	}
}
