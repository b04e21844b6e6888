package billing

import (
	"cmp"
	"errors"
	"slices"

	"tollgate/engine/billing/internal/book"
	"tollgate/engine/decimal"
	"tollgate/engine/journal"
)

// MarginBy is the breakdown of a margin.
type MarginBy uint8

const (
	MarginByCustomer MarginBy = 1 // the caller's own identifier
	MarginByFeature  MarginBy = 2 // the feature's key; base prices are the row without a key
	// MarginByPlan uses the key of the plan in force: for an invoice's line, when its time begins;
	// for usage, when it occurred.
	MarginByPlan MarginBy = 3
)

// MarginQuery asks for revenue and cost of [From, To): invoices by their issue, usage events by
// occurredAt, both in milliseconds on the environment's clock.
type MarginQuery struct {
	Env      uint32
	From, To int64
	By       MarginBy
	// MaxEvents bounds the usage events and corrections that are read.
	MaxEvents int
}

// MarginRow is the revenue and cost of a key in a currency. Margin is their difference. Currency is
// that of the subscription's plan; empty for events without a subscription.
//
//schema:answer admin MarginRow
type MarginRow struct {
	Key      string          `json:"key"`
	Currency string          `json:"currency,omitzero" rule:"min=3,max=3"`
	Revenue  decimal.Decimal `json:"revenue"`
	Cost     decimal.Decimal `json:"cost"`
	Margin   decimal.Decimal `json:"margin"`
	Events   uint64          `json:"events"`
	// Overruns are those of Events that settled more of a reservation than fitted.
	Overruns uint64 `json:"overruns,omitzero"`
}

var (
	// ErrMarginTooLarge means that the range has more events than MaxEvents.
	ErrMarginTooLarge = errors.New("billing: too many usage events for one margin query")
	// ErrMarginOverflow means that a sum leaves the range of exact numbers.
	ErrMarginOverflow = errors.New("billing: a margin leaves the range of exact numbers")
)

// marginKey identifies a row.
type marginKey struct{ key, currency string }

// margin is a query in progress.
type margin struct {
	q      MarginQuery
	rows   []*MarginRow
	byKey  map[marginKey]*MarginRow
	events int
	err    error
}

func (g *margin) row(key, currency string) *MarginRow {
	k := marginKey{key, currency}
	r := g.byKey[k]
	if r == nil {
		r = &MarginRow{Key: key, Currency: currency}
		g.byKey[k], g.rows = r, append(g.rows, r)
	}
	return r
}

func (g *margin) add(dst *decimal.Decimal, amount decimal.Decimal) {
	sum, ok := dst.Add(amount)
	if !ok {
		g.err = ErrMarginOverflow
	}
	*dst = sum
}

// Margin answers a query from the stored invoices and the journal. Costs are those stored with each
// usage event, plus corrections. Rows are in the order of key and currency. It reads every customer
// of the environment, so it is for reports, not for requests of customers.
func (m *journalReader) Margin(src journal.Source, q MarginQuery) ([]MarginRow, error) {
	s := m.state.Load()
	g := &margin{q: q, byKey: map[marginKey]*MarginRow{}}
	for row := uint32(1); row <= s.whole.customers.Load() && g.err == nil; row++ {
		if s.Customers.Read(row).Env == q.Env {
			g.customer(m, src, row)
		}
	}
	if g.err != nil {
		return nil, g.err
	}
	rows := make([]MarginRow, 0, len(g.rows))
	for _, r := range g.rows {
		var ok bool
		if r.Margin, ok = r.Revenue.Sub(r.Cost); !ok {
			return nil, ErrMarginOverflow
		}
		rows = append(rows, *r)
	}
	slices.SortFunc(rows, func(a, b MarginRow) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Currency, b.Currency))
	})
	return rows, nil
}

// customer adds one customer's revenue and cost.
func (g *margin) customer(m *journalReader, src journal.Source, row uint32) {
	subscriptions, customer := m.plansInForce(row)
	key := func(feature, plan string) string {
		switch g.q.By {
		case MarginByCustomer:
			return customer
		case MarginByPlan:
			return plan
		}
		return feature
	}
	for _, invoice := range m.Invoices(g.q.Env, row) {
		if invoice.CreatedAt < g.q.From || invoice.CreatedAt >= g.q.To ||
			invoice.Status == book.InvoiceVoid || invoice.Status == book.InvoicePending {
			continue
		}
		plans := subscriptions[invoice.SubscriptionID]
		for i := range invoice.Items {
			item := &invoice.Items[i]
			r := g.row(key(item.FeatureKey, plans.ofLine(item)), invoice.Currency)
			g.add(&r.Revenue, item.Amount)
		}
	}
	g.costs(m, src, row, func(e *EventView) *MarginRow {
		plans := subscriptions[e.SubscriptionID]
		return g.row(key(e.FeatureKey, plans.at(e.OccurredAt)), plans.currency)
	})
}

// plansInForce are the plans of a subscription over time.
type plansInForce struct {
	currency string // of all of them: a change to a plan with another is refused
	first    string // of the first
	changes  []planTaken
}

// planTaken is the key of a plan and when it took effect.
type planTaken struct {
	at  int64
	key string
}

// at returns the plan at an instant; before the subscription's start the first one.
func (p *plansInForce) at(instant int64) string {
	key := p.first
	for _, c := range p.changes {
		if c.at <= instant {
			key = c.key
		}
	}
	return key
}

// ofLine returns the plan that a line bills: for unused time, the plan that was left at its start.
func (p *plansInForce) ofLine(item *book.InvoiceItem) string {
	if item.Kind == book.LineUnused {
		return p.at(item.PeriodStart - 1)
	}
	return p.at(item.PeriodStart)
}

// plansInForce returns the plans of each of a customer's subscriptions so far, by the
// subscription's id, and the caller's own identifier of the customer.
func (m *journalReader) plansInForce(customer uint32) (map[[16]byte]*plansInForce, string) {
	s := m.state.Load()
	lock := s.ReadLock(customer)
	defer lock.RUnlock()
	c := s.Customers.Read(customer)
	all := map[[16]byte]*plansInForce{{}: {}} // events of no subscription
	projections := s.ProjectionsNow(customer)
	for row := c.FirstSubscription; row != 0; {
		l := projections.Of(row)
		v := l.Version()
		plans := &plansInForce{currency: v.Currency, first: l.Catalog.PlanKey(l.Sub.Version)}
		for at := l.Sub.FirstChange; at != 0; at = s.PlanChanges.Read(at).Next {
			change := l.ChangeAt(at)
			if change.Status != book.ChangeCompleted {
				continue
			}
			if len(plans.changes) == 0 {
				plans.first = l.Catalog.PlanKey(change.From)
			}
			plans.changes = append(plans.changes,
				planTaken{change.EffectiveAt, l.Catalog.PlanKey(change.To)})
		}
		all[l.Sub.ID] = plans
		row = l.Sub.Next
	}
	return all, string(s.ExternalID(c))
}

// marginPage is how many events are read at a time.
const marginPage = 1000

// marginKinds are the events that cost something. A correction is listed at the time of its event,
// so a range has both or neither.
var marginKinds = []EventKind{EventUsage, EventVoid, EventAmend}

// costs adds the cost of each of a customer's usage events, as corrected, to its row. A voided
// event costs nothing and is not counted.
func (g *margin) costs(
	m *journalReader, src journal.Source, row uint32, place func(*EventView) *MarginRow,
) {
	q := EventQuery{
		Customer: row, From: g.q.From, To: g.q.To, Kinds: marginKinds, Limit: marginPage,
	}
	for g.err == nil {
		events, next, err := m.Events(src, q)
		if err != nil {
			g.err = err
			return
		}
		if g.events += len(events); g.events > g.q.MaxEvents {
			g.err = ErrMarginTooLarge
			return
		}
		for i := range events {
			e := &events[i]
			r := place(e)
			switch e.Kind {
			case EventUsage:
				r.Events++
				if !e.Overrun.IsZero() {
					r.Overruns++
				}
			case EventVoid:
				r.Events--
			}
			if e.HasCost {
				g.add(&r.Cost, e.Cost)
			}
			g.add(&r.Cost, e.CostChange)
			r.Overruns += uint64(e.OverrunsChange)
		}
		if next.Index == 0 {
			return
		}
		q.After = next
	}
}
