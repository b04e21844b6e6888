package billing

// Suspend and Cancel put a subscription into states that no command of this version reaches, for
// tests of what reads them.
func (m *Machine) Suspend(id [16]byte, at int64) {
	s := m.state.Load()
	s.subscriptions.Write(s.subscriptionWith(&id)).suspendedAt = at
}

func (m *Machine) Cancel(id [16]byte, at int64) {
	s := m.state.Load()
	row := s.subscriptionWith(&id)
	s.subscribed(s.subscriptions.Read(row), -1)
	s.subscriptions.Write(row).cancelledAt = at
}

// SetInvoiceStatus does the same for an invoice.
func (m *Machine) SetInvoiceStatus(id [16]byte, status InvoiceStatus) {
	s := m.state.Load()
	s.invoices.Write(s.invoiceWith(&id)).status = status
}

// Next is a counter's usage of the next period.
func (m *Machine) Next(row uint32) string { return m.state.Load().counters.Read(row).next.String() }

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
	c := customer{
		env: 3, firstSubscription: 4, lastSubscription: 5, firstInvoice: 6, lastInvoice: 7,
		subscriptions: 2, externalLen: 3, id: id(0x10), createdAt: 1769871600000,
		modifiedAt: 1769871600001,
	}
	copy(c.external[:], "ada")
	b := subscription{
		customer: 1, next: 2, version: 3, firstCounter: 4, suspendedAt: 5, cancelledAt: -6,
		id: id(0x20), periodStart: 7, periodEnd: 8, createdAt: 9, anchor: 10, period: 11,
		counters: 12, graceDays: 13,
	}
	v := invoice{
		id: id(0x30), number: 1, createdAt: 2, dueAt: 3, paidAt: 4, periodStart: 5, periodEnd: 6,
		amount: goldenDecimal("-12.345678901234"), customer: 7, subscription: 8, version: 9, next: 10,
		kind: InvoiceInitial, status: InvoiceDue,
	}
	n := counter{used: goldenDecimal("1234567890123456.000000000001"), next: goldenDecimal("0.5")}
	q := request{key: id(0x40), body: id(0x50), first: id(0x60), second: id(0x70), at: 17}
	return map[string][]byte{
		"snapshot-pool":         poolCodec.Append(nil, goldenPool()),
		"snapshot-grant":        grantCodec.Append(nil, goldenGrant()),
		"snapshot-transaction":  transactionCodec.Append(nil, goldenTransaction()),
		"snapshot-cover":        coverCodec.Append(nil, goldenCover()),
		"snapshot-request":      requestCodec.Append(nil, &q),
		"snapshot-customer":     customerCodec.Append(nil, &c),
		"snapshot-subscription": subscriptionCodec.Append(nil, &b),
		"snapshot-invoice":      invoiceCodec.Append(nil, &v),
		"snapshot-counter":      counterCodec.Append(nil, &n),
		"snapshot-text":         textCodec.Append(nil, &text{"ada@example.com"}),
	}
}

// GoldenRestored decodes each golden record, and encodes it again.
func GoldenRestored(name string, data []byte) (again []byte, err error) {
	switch name {
	case "snapshot-customer":
		return again, recode(data, &again, customerCodec.Read, customerCodec.Append)
	case "snapshot-subscription":
		return again, recode(data, &again, subscriptionCodec.Read, subscriptionCodec.Append)
	case "snapshot-invoice":
		return again, recode(data, &again, invoiceCodec.Read, invoiceCodec.Append)
	case "snapshot-request":
		return again, recode(data, &again, requestCodec.Read, requestCodec.Append)
	case "snapshot-pool":
		return again, recode(data, &again, poolCodec.Read, poolCodec.Append)
	case "snapshot-grant":
		return again, recode(data, &again, grantCodec.Read, grantCodec.Append)
	case "snapshot-transaction":
		return again, recode(data, &again, transactionCodec.Read, transactionCodec.Append)
	case "snapshot-cover":
		return again, recode(data, &again, coverCodec.Read, coverCodec.Append)
	case "snapshot-counter":
		return again, recode(data, &again, counterCodec.Read, counterCodec.Append)
	}
	return again, recode(data, &again, textCodec.Read, textCodec.Append)
}
