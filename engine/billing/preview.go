package billing

import (
	"slices"

	"tollgate/engine"
	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/lifecycle"
	"tollgate/engine/billing/internal/sums"
	"tollgate/engine/decimal"
	"tollgate/engine/price"
)

// PreviewSubscription returns the initial invoice of a customer's subscription to a plan, as things
// are at a log time. It changes nothing. The outcome is that of the command.
func (m *previewReader) PreviewSubscription(
	env uint32, customer, plan string, now int64,
) (view book.InvoiceView, outcome engine.Outcome) {
	s := m.state.Load()
	e := s.Environment(env)
	if e == nil {
		return view, engine.OutcomeAccountUnknown
	}
	row := s.CustomerNamed(env, []byte(customer))
	if row == 0 {
		return view, engine.OutcomeCustomerUnknown
	}
	lock := s.ReadLock(row)
	defer lock.RUnlock()
	version, outcome := subscribable(s, row, e, plan)
	if version == nil {
		return view, outcome
	}
	now = e.Now(now)
	b, outcome := begun(s, row, version, now)
	if outcome.Refused() {
		return view, outcome
	}
	b.ColdSubscription = b.DefaultCold()
	l := &lifecycle.Projection{Projector: &s.Projector, Env: e, Catalog: e.Catalog.Load(), Sub: b}
	l.Credit = s.Credit(row, version.Currency)
	if left, ok := s.Projections(row, now).Credit[version.Currency]; ok {
		l.Credit = left
	}
	l.Initial([16]byte{})
	return s.draftView(l, &l.Drafts[0]), engine.OutcomeDone
}

// PreviewCancellation returns the invoices that a cancellation would issue at once.
func (m *previewReader) PreviewCancellation(
	env uint32, id [16]byte, mode book.CancelMode, now int64,
) (views []book.InvoiceView, outcome engine.Outcome) {
	return m.preview(env, id, now, func(l *lifecycle.Projection, now int64) engine.Outcome {
		if l.Sub.EndedAt != 0 {
			return engine.OutcomeSubscriptionEnded
		}
		l.Cancel(mode, now)
		return engine.OutcomeDone
	})
}

// PreviewPlanChange returns the invoices that a plan change would issue at once.
func (m *previewReader) PreviewPlanChange(
	env uint32, id [16]byte, plan string, kind book.ChangeType, now int64,
) (views []book.InvoiceView, outcome engine.Outcome) {
	return m.preview(env, id, now, func(l *lifecycle.Projection, now int64) engine.Outcome {
		to, outcome := l.ChangeTo(plan, kind, now)
		if to != nil {
			l.ChangePlan([16]byte{}, to, kind, now)
		}
		return outcome
	})
}

// VoidPreview is what voiding an invoice does to money, as things are.
//
//schema:answer admin VoidPreview
type VoidPreview struct {
	// Credit is what the customer's credit gains; below zero what it loses.
	Credit decimal.Decimal `json:"credit"`
	// Resumes reports whether a suspended subscription goes on.
	Resumes bool `json:"resumes"`
}

// PreviewVoid says what voiding an invoice would do, at a log time. The outcome is that of the
// command; that of a VOID invoice is OutcomeInvoiceVoid.
func (m *previewReader) PreviewVoid(
	env uint32, id [16]byte, now int64,
) (p VoidPreview, outcome engine.Outcome) {
	p.Resumes, outcome = previewUnpaid(m.state.Load(), env, id, now,
		func(s *state, l *lifecycle.Projection, at int, now int64) (outcome engine.Outcome) {
			p.Credit, outcome = void(s, l, at, now)
			return outcome
		})
	return p, outcome
}

// PreviewPayment reports whether marking an invoice as paid would make a suspended subscription go
// on, at a log time. The outcome is that of the command; that of a PAID invoice is
// OutcomeInvoicePaid.
func (m *previewReader) PreviewPayment(
	env uint32, id [16]byte, now int64,
) (resumes bool, outcome engine.Outcome) {
	return previewUnpaid(m.state.Load(), env, id, now,
		func(_ *state, l *lifecycle.Projection, at int, now int64) engine.Outcome {
			l.Pay(at, now)
			return engine.OutcomeDone
		})
}

// previewUnpaid does something to an unpaid invoice in a projection, and reports whether that makes
// its subscription go on.
func previewUnpaid(
	s *state, env uint32, id [16]byte, now int64,
	do func(s *state, l *lifecycle.Projection, at int, now int64) engine.Outcome,
) (resumes bool, outcome engine.Outcome) {
	row := s.InvoiceIn(env, &id)
	if row == 0 {
		return false, engine.OutcomeInvoiceUnknown
	}
	subscription := s.Invoices.Read(row).Subscription
	lock := s.ReadLock(s.Subscriptions.Read(subscription).Customer)
	defer lock.RUnlock()
	now = s.Environment(env).Now(now)
	l := s.ProjectionAt(subscription, now)
	at, outcome := unpaidIn(s, l, &id)
	if outcome != engine.OutcomeDone {
		return false, outcome
	}
	suspended := l.Sub.SuspendedAt != 0
	outcome = do(s, l, at, now)
	return suspended && l.Sub.SuspendedAt == 0, outcome
}

// CorrectionPreview is what voiding or amending a usage event does to money, as things are.
//
//schema:answer client CorrectionPreview
type CorrectionPreview struct {
	// Units are what the event counts, NewUnits what it would count.
	Units    decimal.Decimal `json:"usageUnits"`
	NewUnits decimal.Decimal `json:"newUsageUnits"`
	// Billed reports whether a subscription bills the event; the rest is set only then.
	Billed bool `json:"billed"`
	// Invoices is how much more the invoices to come are, less what they carry on as credit; below
	// zero, how much less.
	Invoices decimal.Decimal `json:"invoices" if:"Billed"`
	Currency string          `json:"currency,omitzero" rule:"min=3,max=3"`
	// Credits are how many credits burn in addition; below zero, how many come back.
	Credits decimal.Decimal `json:"credits" if:"Billed"`
}

// PreviewCorrection says what amending an event to units would do, at a log time, or without units
// what voiding it would. The outcome is that of the command, but that limits of budgets are not
// asked. It waits for the entry that is being applied.
func (m *journalReader) PreviewCorrection(
	env uint32, key [16]byte, ref *UsageRef, units *decimal.Decimal, now int64,
) (p CorrectionPreview, outcome engine.Outcome) {
	m.applying.RLock()
	defer m.applying.RUnlock()
	s := m.state.Load()
	k, outcome := decodeCorrection(s, env, &key, ref, now)
	if outcome != engine.OutcomeDone {
		return p, outcome
	}
	k.load(s, ref, now)
	p.Units, p.NewUnits = k.units, k.units
	switch {
	case units == nil && k.voidedAt != 0:
		return p, engine.OutcomeDone
	case k.voidedAt != 0:
		return p, engine.OutcomeUsageVoided
	case units == nil:
		units = new(decimal.Decimal)
	case units.Sign() < 0 || !units.InRange():
		return p, engine.OutcomeOverflow
	}
	p.NewUnits = *units
	if row := k.original.Subscription; row == 0 || row > s.Subscriptions.Len() ||
		s.Subscriptions.Read(row).Customer != k.owner {
		return p, engine.OutcomeDone
	}
	lock := s.ReadLock(k.owner)
	defer lock.RUnlock()
	return p, p.fill(s, k)
}

// fill corrects the event in a projection that nothing commits.
func (p *CorrectionPreview) fill(s *state, k *correcting) engine.Outcome {
	row, feature := k.original.Subscription, k.original.Feature
	delta, ok := p.NewUnits.Sub(p.Units)
	if !ok {
		return engine.OutcomeOverflow
	}
	l := s.ProjectionAt(row, k.now)
	at, stands := l.SpotOf(k.original.counted())
	switch stands {
	case lifecycle.Nowhere:
		return engine.OutcomeDone
	case lifecycle.Gone:
		return engine.OutcomeUsageFinal
	}
	was, place := k.burnt(), l.PlaceOf(at, feature)
	held := s.Customers.Read(k.owner).Held
	if held {
		at.Held = s.Held.Units(k.owner, row, feature, k.now)
		if place.Credited() {
			was.Kept = s.Held.Credits(k.owner, place.Feature.Credits.Pool, k.now)
		}
	}
	outcome := l.Add(at, feature, delta, k.now)
	if !outcome.Refused() && held && at.Closed == nil {
		outcome = k.beside(l, at.Held, delta)
	}
	if outcome.Refused() {
		return outcome
	}
	paid, credits, outcome := s.PreviewCorrection(k.owner, place, was, p.NewUnits, k.now)
	if outcome.Refused() {
		return outcome
	}
	l.Cover(at, feature, sums.Difference(paid, was.Paid))
	p.Billed, p.Currency, p.Credits = true, l.Version().Currency, credits
	p.Invoices = sums.Difference(owed(s, l), owed(s, s.ProjectionAt(row, k.now)))
	return engine.OutcomeDone
}

// owed is what the invoices to come of a subscription amount to, less the credit that is left. It
// moves the projection there.
func owed(s *state, l *lifecycle.Projection) (sum decimal.Decimal) {
	if l.Sub.AdjustAt != 0 {
		l.Run(l.Sub.AdjustAt, previewedWork)
	}
	s.Upcoming(l)
	for i := range l.Drafts {
		sum = sums.Of(sum, l.Drafts[i].Amount)
	}
	return sums.Difference(sum, l.Credit)
}

// preview applies change to a copy of a subscription, as a command would, and returns the invoices
// that result from it alone.
func (m *previewReader) preview(
	env uint32, id [16]byte, now int64, change func(l *lifecycle.Projection, now int64) engine.Outcome,
) (views []book.InvoiceView, outcome engine.Outcome) {
	s := m.state.Load()
	row := s.SubscriptionIn(env, &id)
	if row == 0 {
		return nil, engine.OutcomeSubscriptionUnknown
	}
	lock := s.ReadLock(s.Subscriptions.Read(row).Customer)
	defer lock.RUnlock()
	now = s.Environment(env).Now(now)
	l := s.ProjectionAt(row, now)
	due := len(l.Drafts)
	if outcome = change(l, now); outcome != engine.OutcomeDone {
		return nil, outcome
	}
	views = []book.InvoiceView{}
	for i := due; i < len(l.Drafts); i++ {
		views = append(views, s.draftView(l, &l.Drafts[i]))
	}
	return views, engine.OutcomeDone
}

// draftView shows an invoice that was never issued: it has no number, and its id means nothing.
func (s *state) draftView(l *lifecycle.Projection, d *lifecycle.Draft) book.InvoiceView {
	for i := range d.Items {
		if d.Items[i].PeriodEnd == 0 {
			d.Items[i].PeriodStart, d.Items[i].PeriodEnd = d.PeriodStart, d.PeriodEnd
		}
	}
	book.BreakDown(l.Catalog, d.Version, d.Items)
	return book.InvoiceView{
		ID: d.ID, SubscriptionID: l.Sub.ID, Type: d.Kind, Status: d.Status,
		Customer: string(s.ExternalID(s.Customers.Read(d.Customer))), Amount: d.Amount,
		Currency: l.Catalog.Version(d.Version).Currency, CreatedAt: d.CreatedAt, DueDate: d.DueAt,
		PeriodStart: d.PeriodStart, PeriodEnd: d.PeriodEnd, Items: d.Items,
	}
}

// ClockPreview is what happens when a sandbox's clock moves to an instant, as things are now.
type ClockPreview struct {
	// Invoices are those that are issued, Amounts what they come to, by currency.
	Invoices int
	Amounts  []CurrencyAmount
	// Suspended and Ended count subscriptions that are so then, and are not now.
	Suspended, Ended int
	// Whole reports whether all that happens was looked at.
	Whole bool
}

// CurrencyAmount is an amount of a currency.
type CurrencyAmount struct {
	Currency string
	Amount   decimal.Decimal
}

// Bounds of what PreviewClock looks at.
const (
	previewedCustomers = 100_000 // of all environments
	previewedInvoices  = 10_000
	// previewedWork bounds the units of work for one customer: commands on it wait meanwhile.
	previewedWork = 20_000
)

// PreviewClock says what moving the clock of an environment to an instant does, at a log time. It
// changes nothing. Where AdvanceClock refuses the instant, nothing happens.
func (m *previewReader) PreviewClock(env uint32, to, now int64) (p ClockPreview) {
	s := m.state.Load()
	if e := s.Environment(env); e == nil || advances(e, e.Now(now), to).Refused() {
		return ClockPreview{Whole: true}
	}
	p.Whole = true
	newest := uint32(s.whole.customers.Load())
	for row := newest; row > 0; row-- {
		if newest-row >= previewedCustomers || p.Invoices >= previewedInvoices {
			p.Whole = false
			return p
		}
		if s.Customers.Read(row).Env == env {
			p.add(s, row, to)
		}
	}
	return p
}

// add counts what happens to a customer's subscriptions.
func (p *ClockPreview) add(s *state, customer uint32, to int64) {
	lock := s.ReadLock(customer)
	defer lock.RUnlock()
	projections := s.ProjectionsWithin(customer, to, previewedWork)
	p.Whole = p.Whole && projections.Whole
	for _, l := range projections.Due {
		now := s.Subscriptions.Cold(l.Row)
		if l.Sub.SuspendedAt != 0 && now.SuspendedAt == 0 {
			p.Suspended++
		}
		if l.Sub.EndedAt != 0 && now.EndedAt == 0 {
			p.Ended++
		}
		for i := range l.Drafts {
			p.Invoices++
			p.bill(l.Catalog.Version(l.Drafts[i].Version).Currency, l.Drafts[i].Amount)
		}
	}
}

// bill adds an amount to those of its currency. One beyond what can be added leaves them.
func (p *ClockPreview) bill(currency string, amount decimal.Decimal) {
	at := slices.IndexFunc(p.Amounts, func(a CurrencyAmount) bool { return a.Currency == currency })
	if at < 0 {
		p.Amounts = append(p.Amounts, CurrencyAmount{Currency: currency})
		at = len(p.Amounts) - 1
	}
	if sum, ok := p.Amounts[at].Amount.Add(amount); ok {
		p.Amounts[at].Amount = sum
	}
}

// PricePreview is what a period of a plan costs with some usage.
type PricePreview struct {
	Currency string
	Months   uint32 // the length of the period
	Base     decimal.Decimal
	Lines    []PricedUsage
	Total    decimal.Decimal
}

// PricedUsage is what units of a feature cost.
type PricedUsage struct {
	Feature       string
	Units, Amount decimal.Decimal
	// Stopped is set where more units were asked for than the hard limit lets through, which is
	// then Units.
	Stopped bool
}

// PreviewPrice says what a period of a plan's newest version costs with so many units of features,
// line by line as invoices have them, before credits.
func (m *accountReader) PreviewPrice(
	env uint32, plan string, units map[string]decimal.Decimal,
) (p PricePreview, outcome engine.Outcome) {
	e := m.state.Load().Environment(env)
	if e == nil {
		return p, engine.OutcomeAccountUnknown
	}
	catalog := e.Catalog.Load()
	named := catalog.PlanNamed(plan)
	if named == nil {
		return p, engine.OutcomePlanUnknown
	}
	v := named.Newest()
	p = PricePreview{Currency: v.Currency, Months: v.Interval, Base: v.Price, Total: v.Price}
	for i := range v.Features {
		f := &v.Features[i]
		used := PricedUsage{Feature: catalog.Feature(f.Feature).Document.Key}
		used.Units = units[used.Feature]
		if f.HasMax && f.Hard && f.Max.Less(used.Units) {
			used.Units, used.Stopped = f.Max, true
		}
		var err error
		used.Amount, err = price.Line(&f.Model, used.Units, v.Places)
		sum, ok := p.Total.Add(used.Amount)
		if err != nil || !ok {
			return p, engine.OutcomeOverflow
		}
		p.Lines, p.Total = append(p.Lines, used), sum
	}
	return p, engine.OutcomeDone
}

// Subscribers returns how many subscriptions to each plan have not ended, by the plan's key.
func (m *accountReader) Subscribers(env uint32) map[string]int64 {
	counts := map[string]int64{}
	if e := m.state.Load().Environment(env); e != nil {
		for _, plan := range e.Catalog.Load().Plans {
			counts[plan.Document.Key] = plan.Subscribers.Load()
		}
	}
	return counts
}
