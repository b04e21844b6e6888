package billing

import (
	"encoding/binary"

	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/credits"
	"tollgate/engine/billing/internal/holds"
	"tollgate/engine/billing/internal/lifecycle"
	"tollgate/engine/billing/internal/outbox"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/decimal"
	"tollgate/engine/journal"
	"tollgate/engine/uuid"
	"tollgate/engine/wire"
)

// changeSubscription changes a subscription in memory.
func changeSubscription(b *book.Subscriptions, row uint32, change func(*book.Subscription)) {
	whole := b.Whole(row)
	change(&whole)
	b.Write(row, &whole)
}

// changeInvoice changes an invoice in memory.
func changeInvoice(n *book.Invoices, row uint32, change func(*book.Invoice)) {
	v := n.Read(row)
	change(&v)
	n.Write(row, &v)
}

// BoundRanking gives a ranking by price so many bytes.
func (m *Machine) BoundRanking(bytes int) { m.ranked = bytes }

// Suspend and Cancel put a subscription into a state without waiting for what leads there.
func (m *Machine) Suspend(id [16]byte, at int64) {
	s := m.state.Load()
	changeSubscription(
		&s.Subscriptions, s.SubscriptionWith(&id), func(b *book.Subscription) { b.SuspendedAt = at },
	)
}

func (m *Machine) Cancel(id [16]byte, at int64) {
	s := m.state.Load()
	row := s.SubscriptionWith(&id)
	s.Subscribed(new(s.Subscriptions.Whole(row)), -1)
	changeSubscription(&s.Subscriptions, row, func(b *book.Subscription) { b.EndedAt = at })
}

// SetInvoiceStatus changes an invoice in memory, as a fault would.
func (m *Machine) SetInvoiceStatus(id [16]byte, status book.InvoiceStatus) {
	s := m.state.Load()
	row := s.InvoiceWith(&id)
	changeInvoice(&s.Invoices, row, func(v *book.Invoice) { v.Status = status })
	v := s.Invoices.Read(row)
	changeSubscription(&s.Subscriptions, v.Subscription, func(b *book.Subscription) {
		if b.FirstUnpaid == row {
			b.FirstUnpaid = v.NextUnpaid
		}
	})
}

// NewCutting is a machine whose journal cuts segments of another length, in bytes.
func NewCutting(length int) *Machine {
	m := New(Config{})
	m.journal = journal.NewCutting(length)
	return m
}

// Work is how many units of work the last entry was.
func (m *Machine) Work() int { return m.scratch.entry.Work }

// EntryWork is how many units an entry may do.
const EntryWork = accounts.EntryWork

// Next is a counter's usage of the next period.
func (m *Machine) Next(row uint32) string {
	n := m.state.Load().Counters.Read(row)
	return n.Next.String()
}

// ReadAudits decodes a block.
func ReadAudits(payload []byte) (checks []AuditCheck, err error) {
	r, err := openAudits(payload)
	if err != nil {
		return nil, err
	}
	for r.next() {
		checks = append(checks, r.check)
	}
	return checks, r.err
}

// Golden are the snapshot records of known values, encoded.
func Golden() map[string][]byte {
	id := func(b byte) (id [16]byte) {
		for i := range id {
			id[i] = b + byte(i)
		}
		return id
	}
	c := book.Customer{HotCustomer: book.HotCustomer{
		Env: 3, FirstSubscription: 4, FirstInvoice: 6, LastInvoice: 7, ExternalLen: 3, ID: id(0x10),
		CreatedAt: 1769871600000,
	}, ColdCustomer: book.ColdCustomer{
		ModifiedAt: 1769871600001, LastSubscription: 5, Subscriptions: 2, FirstBalance: 9,
	}}
	copy(c.External[:], "ada")
	b := book.Subscription{HotSubscription: book.HotSubscription{
		Customer: 1, Next: 2, Version: 3, FirstCounter: 4,
		ID: id(0x20), PeriodStart: 7, PeriodEnd: 8, CreatedAt: 9, Period: 11,
		Counters: 12, GraceDays: 13, Due: 14, Months: 20, FirstSpan: 23, FirstUnpaid: 24, IssueAt: 30,
	}, ColdSubscription: book.ColdSubscription{
		SuspendedAt: 5, EndedAt: -6, Anchor: 10, CancelledAt: 15, AdjustAt: 16, SpanStart: 17,
		Span: 18, FirstSequence: 19, BaseVersion: 21, FirstBase: 22,
		FirstChange: 25, LastChange: 26, Pending: 27, Adjustments: 28, Room: 29,
		CancelMode: book.CancelAtPeriodEnd,
	}}
	v := book.Invoice{
		ID: id(0x30), Number: 1, CreatedAt: 2, DueAt: 3, PaidAt: 4, PeriodStart: 5, PeriodEnd: 6,
		Amount: goldenDecimal("-12.345678901234"), Customer: 7, Subscription: 8, Version: 9, Next: 10,
		Kind: book.InvoiceInitial, Status: book.InvoiceDue, NextUnpaid: 11, GraceEnd: 12,
	}
	n := book.Counter{Used: goldenDecimal("1234567890123456.000000000001"), Next: goldenDecimal("0.5")}
	q := request{key: id(0x40), body: id(0x50), first: id(0x60), second: id(0x70), at: 17, env: 2}
	return map[string][]byte{
		"snapshot-pool":         credits.PoolCodec.Append(nil, goldenPool()),
		"snapshot-grant":        credits.GrantCodec.Append(nil, goldenGrant()),
		"snapshot-transaction":  credits.TransactionCodec.Append(nil, goldenTransaction()),
		"snapshot-pool-archive": credits.ArchiveCodec.Append(nil, goldenArchive()),
		"snapshot-trace":        credits.TraceCodec.Append(nil, goldenTrace()),
		"snapshot-chunk":        credits.ChunkCodec.Append(nil, goldenChunk()),
		"snapshot-cover":        credits.CoverCodec.Append(nil, goldenCover()),
		"snapshot-request":      requestCodec.Append(nil, &q),
		"snapshot-delivery":     outbox.DeliveryCodec.Append(nil, goldenDelivery()),
		"snapshot-hold":         holds.HoldCodec.Append(nil, goldenHold()),
		"snapshot-hold-item":    holds.ItemCodec.Append(nil, goldenHoldItem()),
		"snapshot-hold-words":   goldenHoldWords(),

		"snapshot-key": wire.Encode(nil, &keyRecord{KeyFacts: accounts.KeyFacts{
			ID: id(0x80), Hash: [32]byte{1, 2, 3}, Scope: accounts.ScopeCustomer, Label: "ci",
			Hint: "sk_live_ab", CreatedAt: 1769871600000, Customer: 5, Budget: 70000,
			UsedAt: 1769958000000, EndsAt: 1770044400000,
			UsedHours: []accounts.KeyUse{{Start: 1769954400000, Requests: 300, Events: 2}},
			UsedDays: []accounts.KeyUse{
				{Start: 1769817600000, Requests: 1 << 33},
				{Start: 1769904000000, Requests: 300, Events: 2},
			},
			CreatedBy: "admin",
		}, RevokedAt: 1769958000001, RevokedIndex: 9}),
		"snapshot-key-noted": wire.Encode(nil, &keyRecord{KeyFacts: accounts.KeyFacts{
			ID: id(0x80), Hash: [32]byte{1, 2, 3}, Scope: accounts.ScopeFull, CreatedAt: 1769871600000,
			UsedAt: 1769958000000, Noted: []accounts.KeyNote{{Source: 1 << 60, Number: 300}},
		}}),
		"snapshot-webhook-endpoint": outbox.WebhookEndpointCodec.Append(nil, goldenEndpoint()),
		"snapshot-customer":         book.CustomerCodec.Append(nil, &c),
		"snapshot-subscription":     book.SubscriptionCodec.Append(nil, &b),
		"snapshot-invoice":          book.InvoiceCodec.Append(nil, &v),
		"snapshot-counter":          book.CounterCodec.Append(nil, &n),
		"snapshot-text":             rows.TextCodec.Append(nil, &rows.Text{Data: "ada@example.com"}),
		"snapshot-span": book.SpanCodec.Append(nil, &book.Span{
			Start: 1, End: 2, Number: 3, Period: 4, Version: 5, Customer: 6, FirstMeter: 7, Next: 8,
			Billed: true,
		}),
		"snapshot-span-meter": book.MeterCodec.Append(nil, &book.Meter{
			Quantity: goldenDecimal("1.5"), Covered: goldenDecimal("0.25"), Invoiced: goldenDecimal("1"),
			Forgiven: goldenDecimal("7"), Next: 2, Slot: 3,
		}),
		"snapshot-sequence": book.SequenceCodec.Append(nil, &book.Sequence{
			Rated: goldenDecimal("1.5"), Counted: goldenDecimal("2"), Version: 3, Feature: 4, Next: 5,
		}),
		"snapshot-base": book.BaseCodec.Append(nil, &book.Base{
			Rated: goldenDecimal("1.5"), Opened: goldenDecimal("2"),
		}),
		"snapshot-balance": book.BalanceCodec.Append(nil, &book.Balance{
			Amount: goldenDecimal("1.5"), Currency: [4]byte{'U', 'S', 'D'}, Customer: 1, Next: 2,
		}),
		"snapshot-plan-change": book.PlanChangeCodec.Append(nil, &book.PlanChange{
			ID: id(0x40), CreatedAt: 1, EffectiveAt: 2, Subscription: 3, From: 4, To: 5, Next: 6,
			Kind: book.ChangeDowngrade, Status: book.ChangePending,
		}),
		"snapshot-correction": correctionCodec.Append(nil, &correction{
			key: id(0x60), request: id(0x70), units: goldenDecimal("3"), voidedAt: 1, stamp: 2, next: 3,
		}),
	}
}

// GoldenRestored decodes each golden record, and encodes it again.
func GoldenRestored(name string, data []byte) (again []byte, err error) {
	err = map[string]func() error{
		"snapshot-customer":     func() error { return recode(data, &again, book.CustomerCodec) },
		"snapshot-subscription": func() error { return recode(data, &again, book.SubscriptionCodec) },
		"snapshot-invoice":      func() error { return recode(data, &again, book.InvoiceCodec) },
		"snapshot-counter":      func() error { return recode(data, &again, book.CounterCodec) },
		"snapshot-request":      func() error { return recode(data, &again, requestCodec) },
		"snapshot-pool":         func() error { return recode(data, &again, credits.PoolCodec) },
		"snapshot-grant":        func() error { return recode(data, &again, credits.GrantCodec) },
		"snapshot-transaction":  func() error { return recode(data, &again, credits.TransactionCodec) },
		"snapshot-pool-archive": func() error { return recode(data, &again, credits.ArchiveCodec) },
		"snapshot-trace":        func() error { return recode(data, &again, credits.TraceCodec) },
		"snapshot-chunk":        func() error { return recode(data, &again, credits.ChunkCodec) },
		"snapshot-cover":        func() error { return recode(data, &again, credits.CoverCodec) },
		"snapshot-delivery":     func() error { return recode(data, &again, outbox.DeliveryCodec) },
		"snapshot-hold":         func() error { return recode(data, &again, holds.HoldCodec) },
		"snapshot-hold-item":    func() error { return recode(data, &again, holds.ItemCodec) },
		"snapshot-hold-words": func() error {
			var w holds.Words
			err := wire.Decode(data, &w)
			again = wire.Encode(nil, &w)
			return err
		},
		"snapshot-key":       func() (err error) { again, err = recodeKey(data); return err },
		"snapshot-key-noted": func() (err error) { again, err = recodeKey(data); return err },
		"snapshot-webhook-endpoint": func() error {
			return recode(data, &again, outbox.WebhookEndpointCodec)
		},
		"snapshot-text":        func() error { return recode(data, &again, rows.TextCodec) },
		"snapshot-span":        func() error { return recode(data, &again, book.SpanCodec) },
		"snapshot-span-meter":  func() error { return recode(data, &again, book.MeterCodec) },
		"snapshot-sequence":    func() error { return recode(data, &again, book.SequenceCodec) },
		"snapshot-base":        func() error { return recode(data, &again, book.BaseCodec) },
		"snapshot-balance":     func() error { return recode(data, &again, book.BalanceCodec) },
		"snapshot-plan-change": func() error { return recode(data, &again, book.PlanChangeCodec) },
		"snapshot-correction":  func() error { return recode(data, &again, correctionCodec) },
	}[name]()
	return again, err
}

// recodeKey decodes an API key and encodes it again.
func recodeKey(data []byte) ([]byte, error) {
	var k keyRecord
	err := wire.Decode(data, &k)
	return wire.Encode(nil, &k), err
}

// Prefetched is how many events and settlements of the newest entry were prefetched.
func (m *Machine) Prefetched() (usages, settlements int) {
	for i := range m.scratch.usages {
		if m.scratch.usages[i].row != 0 {
			usages++
		}
	}
	for i := range m.scratch.settlements {
		if m.scratch.settlements[i].own.row != 0 {
			settlements++
		}
	}
	return usages, settlements
}

// UsedOf is what the counter of a feature says now; false where the plan does not carry it.
func UsedOf(m *Machine, id [16]byte, feature string) (used decimal.Decimal, carried bool) {
	s := m.state.Load()
	l := s.OpenProjection(s.SubscriptionWith(&id))
	l.Run(l.Env.Now(s.Log.Stamp()), lifecycle.Everything)
	slot, carried := l.Version().Slot(l.Catalog.FeatureByKey[feature])
	if carried {
		used = l.Counters[slot].Used
	}
	return used, carried
}

// Idempotents stands for the environment of idempotent commands in KeepRequests; OtherRequests
// bound the keys of the others.
const (
	Idempotents   = idempotents
	OtherRequests = otherRequests
)

// KeepRequests puts answers of an environment into the ring, as Once would one by one.
func (m *Machine) KeepRequests(env uint32, count int, at int64) {
	q := &m.state.Load().requests
	for n := range count {
		r := request{at: at, env: env}
		binary.BigEndian.PutUint64(r.key[:], q.To)
		binary.BigEndian.PutUint64(r.body[:], uint64(n))
		q.keep(r)
	}
}

// Describable are the commands that Administer carries.
func Describable() (kinds []engine.Kind) {
	for kind := range registry {
		if registry[kind].record == recordedAround {
			kinds = append(kinds, engine.Kind(kind))
		}
	}
	return kinds
}

// UUIDText is the text of a UUID.
func UUIDText(id [16]byte) string { return uuid.Text(id) }

// RegisteredKinds are the kinds of all commands.
func RegisteredKinds() []engine.Kind { return table.Kinds() }
