package billing

import (
	"encoding/binary"

	"tollgate/engine"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/decimal"
	"tollgate/engine/journal"
	"tollgate/engine/page"
)

// changeSubscription changes a subscription in memory.
func changeSubscription(b *subscriptions, row uint32, change func(*subscription)) {
	whole := b.Whole(row)
	change(&whole)
	b.Write(row, &whole)
}

// changeInvoice changes an invoice in memory.
func changeInvoice(n *invoices, row uint32, change func(*invoice)) {
	v := n.Read(row)
	change(&v)
	n.Write(row, &v)
}

// Suspend and Cancel put a subscription into a state without waiting for what leads there.
func (m *Machine) Suspend(id [16]byte, at int64) {
	s := m.state.Load()
	changeSubscription(&s.subscriptions, s.subscriptionWith(&id), func(b *subscription) { b.suspendedAt = at })
}

func (m *Machine) Cancel(id [16]byte, at int64) {
	s := m.state.Load()
	row := s.subscriptionWith(&id)
	s.subscribed(new(s.subscriptions.Whole(row)), -1)
	changeSubscription(&s.subscriptions, row, func(b *subscription) { b.endedAt = at })
}

// SetInvoiceStatus changes an invoice in memory, as a fault would.
func (m *Machine) SetInvoiceStatus(id [16]byte, status InvoiceStatus) {
	s := m.state.Load()
	row := s.invoiceWith(&id)
	changeInvoice(&s.invoices, row, func(v *invoice) { v.status = status })
	v := s.invoices.Read(row)
	changeSubscription(&s.subscriptions, v.subscription, func(b *subscription) {
		if b.firstUnpaid == row {
			b.firstUnpaid = v.nextUnpaid
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
func (m *Machine) Work() int { return m.scratch.entry.work }

// EntryWork is how many units an entry may do.
const EntryWork = entryWork

// Next is a counter's usage of the next period.
func (m *Machine) Next(row uint32) string {
	n := m.state.Load().counters.Read(row)
	return n.next.String()
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

// What stands for a record in a snapshot, whatever its row in memory.
var (
	counterCodec      = page.Codec[counter]{Append: appendCounter, Read: readCounter}
	subscriptionCodec = page.Codec[subscription]{Append: appendSubscription, Read: readSubscription}
	invoiceCodec      = page.Codec[invoice]{Append: appendInvoice, Read: readInvoice}
)

// Golden are the snapshot records of known values, encoded.
func Golden() map[string][]byte {
	id := func(b byte) (id [16]byte) {
		for i := range id {
			id[i] = b + byte(i)
		}
		return id
	}
	c := customer{
		env: 3, firstSubscription: 4, lastSubscription: 5, firstInvoice: 6, lastInvoice: 7,
		subscriptions: 2, externalLen: 3, id: id(0x10), createdAt: 1769871600000,
		modifiedAt: 1769871600001, firstBalance: 9,
	}
	copy(c.external[:], "ada")
	b := subscription{usualSubscription{
		customer: 1, next: 2, version: 3, firstCounter: 4,
		id: id(0x20), periodStart: 7, periodEnd: 8, createdAt: 9, period: 11,
		counters: 12, graceDays: 13, due: 14, months: 20, firstSpan: 23, firstUnpaid: 24, issueAt: 30,
	}, subscriptionRest{
		suspendedAt: 5, endedAt: -6, anchor: 10, cancelledAt: 15, adjustAt: 16, spanStart: 17,
		span: 18, firstSequence: 19, baseVersion: 21, firstBase: 22,
		firstChange: 25, lastChange: 26, pending: 27, adjustments: 28, room: 29,
		cancelMode: CancelAtPeriodEnd,
	}}
	v := invoice{
		id: id(0x30), number: 1, createdAt: 2, dueAt: 3, paidAt: 4, periodStart: 5, periodEnd: 6,
		amount: goldenDecimal("-12.345678901234"), customer: 7, subscription: 8, version: 9, next: 10,
		kind: InvoiceInitial, status: InvoiceDue, nextUnpaid: 11, graceEnd: 12,
	}
	n := counter{used: goldenDecimal("1234567890123456.000000000001"), next: goldenDecimal("0.5")}
	q := request{key: id(0x40), body: id(0x50), first: id(0x60), second: id(0x70), at: 17, env: 2}
	return map[string][]byte{
		"snapshot-pool":         poolCodec.Append(nil, goldenPool()),
		"snapshot-grant":        grantCodec.Append(nil, goldenGrant()),
		"snapshot-transaction":  transactionCodec.Append(nil, goldenTransaction()),
		"snapshot-pool-archive": archiveCodec.Append(nil, goldenArchive()),
		"snapshot-trace":        traceCodec.Append(nil, goldenTrace()),
		"snapshot-chunk":        chunkCodec.Append(nil, goldenChunk()),
		"snapshot-cover":        coverCodec.Append(nil, goldenCover()),
		"snapshot-request":      requestCodec.Append(nil, &q),
		"snapshot-delivery":     deliveryCodec.Append(nil, goldenDelivery()),

		"snapshot-webhook-endpoint": webhookEndpointCodec.Append(nil, goldenEndpoint()),
		"snapshot-customer":         customerCodec.Append(nil, &c),
		"snapshot-subscription":     subscriptionCodec.Append(nil, &b),
		"snapshot-invoice":          invoiceCodec.Append(nil, &v),
		"snapshot-counter":          counterCodec.Append(nil, &n),
		"snapshot-text":             rows.TextCodec.Append(nil, &rows.Text{Data: "ada@example.com"}),
		"snapshot-span": spanCodec.Append(nil, &span{
			start: 1, end: 2, number: 3, period: 4, version: 5, customer: 6, firstMeter: 7, next: 8,
			billed: true,
		}),
		"snapshot-span-meter": meterCodec.Append(nil, &meter{
			quantity: goldenDecimal("1.5"), covered: goldenDecimal("0.25"), invoiced: goldenDecimal("1"),
			forgiven: goldenDecimal("7"), next: 2, slot: 3,
		}),
		"snapshot-sequence": sequenceCodec.Append(nil, &sequence{
			rated: goldenDecimal("1.5"), counted: goldenDecimal("2"), version: 3, feature: 4, next: 5,
		}),
		"snapshot-base": baseCodec.Append(nil, &base{
			rated: goldenDecimal("1.5"), opened: goldenDecimal("2"),
		}),
		"snapshot-balance": balanceCodec.Append(nil, &balance{
			amount: goldenDecimal("1.5"), currency: [4]byte{'U', 'S', 'D'}, customer: 1, next: 2,
		}),
		"snapshot-plan-change": planChangeCodec.Append(nil, &planChange{
			id: id(0x40), createdAt: 1, effectiveAt: 2, subscription: 3, from: 4, to: 5, next: 6,
			kind: ChangeDowngrade, status: ChangePending,
		}),
		"snapshot-correction": correctionCodec.Append(nil, &correction{
			key: id(0x60), request: id(0x70), units: goldenDecimal("3"), voidedAt: 1, stamp: 2, next: 3,
		}),
	}
}

// GoldenRestored decodes each golden record, and encodes it again.
func GoldenRestored(name string, data []byte) (again []byte, err error) {
	err = map[string]func() error{
		"snapshot-customer":     func() error { return recode(data, &again, customerCodec) },
		"snapshot-subscription": func() error { return recode(data, &again, subscriptionCodec) },
		"snapshot-invoice":      func() error { return recode(data, &again, invoiceCodec) },
		"snapshot-counter":      func() error { return recode(data, &again, counterCodec) },
		"snapshot-request":      func() error { return recode(data, &again, requestCodec) },
		"snapshot-pool":         func() error { return recode(data, &again, poolCodec) },
		"snapshot-grant":        func() error { return recode(data, &again, grantCodec) },
		"snapshot-transaction":  func() error { return recode(data, &again, transactionCodec) },
		"snapshot-pool-archive": func() error { return recode(data, &again, archiveCodec) },
		"snapshot-trace":        func() error { return recode(data, &again, traceCodec) },
		"snapshot-chunk":        func() error { return recode(data, &again, chunkCodec) },
		"snapshot-cover":        func() error { return recode(data, &again, coverCodec) },
		"snapshot-delivery":     func() error { return recode(data, &again, deliveryCodec) },
		"snapshot-webhook-endpoint": func() error {
			return recode(data, &again, webhookEndpointCodec)
		},
		"snapshot-text":        func() error { return recode(data, &again, rows.TextCodec) },
		"snapshot-span":        func() error { return recode(data, &again, spanCodec) },
		"snapshot-span-meter":  func() error { return recode(data, &again, meterCodec) },
		"snapshot-sequence":    func() error { return recode(data, &again, sequenceCodec) },
		"snapshot-base":        func() error { return recode(data, &again, baseCodec) },
		"snapshot-balance":     func() error { return recode(data, &again, balanceCodec) },
		"snapshot-plan-change": func() error { return recode(data, &again, planChangeCodec) },
		"snapshot-correction":  func() error { return recode(data, &again, correctionCodec) },
	}[name]()
	return again, err
}

// UsedOf is what the counter of a feature says now; false where the plan does not carry it.
func UsedOf(m *Machine, id [16]byte, feature string) (used decimal.Decimal, carried bool) {
	s := m.state.Load()
	l := s.openLedger(s.subscriptionWith(&id))
	l.run(l.env.now(s.log.Stamp()), everything)
	slot, carried := l.version().slot(l.catalog.featureByKey[feature])
	if carried {
		used = l.counters[slot].used
	}
	return used, carried
}

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
func UUIDText(id [16]byte) string { return uuidText(id) }

// RegisteredKinds are the kinds of all commands.
func RegisteredKinds() []engine.Kind { return table.Kinds() }
