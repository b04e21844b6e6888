package billing

import "tollgate/engine/decimal"

// Damages are ways in which a state may not fit together, each with what Restore says of it.
// Each changes the state of a machine that TestRestoreRefusesWhatDoesNotFit describes.
func Damages() map[string]func(m *Machine) {
	with := func(change func(s *state)) func(m *Machine) {
		return func(m *Machine) { change(m.state.Load()) }
	}
	subscribed := func(change func(b *subscription)) func(m *Machine) {
		return with(func(s *state) { changeSubscription(&s.subscriptions, 1, change) })
	}
	invoiced := func(row uint32, change func(v *invoice)) func(m *Machine) {
		return with(func(s *state) { changeInvoice(&s.invoices, row, change) })
	}
	one := decimal.FromInt(1)
	return map[string]func(m *Machine){
		"customer 1 leads nowhere": with(func(s *state) { s.customers.Write(1).env = 99 }),
		"the subscriptions of customer 1 do not end": with(func(s *state) {
			s.customers.Write(1).subscriptions++
		}),
		"customer 2 has subscription 1 of another": with(func(s *state) {
			c := s.customers.Write(2)
			c.firstSubscription, c.lastSubscription = 1, 1
		}),
		"the invoices of customer 1 do not end": with(func(s *state) {
			s.customers.Write(1).lastInvoice = 1
		}),
		"the balances of customer 1": with(func(s *state) {
			b := s.customers.Read(1).firstBalance
			s.balances.Write(b).next = b
		}),
		"customer 1 has no profile":     with(func(s *state) { s.profiles.Write(1).Data = "\xff" }),
		"subscription 1 leads nowhere":  subscribed(func(b *subscription) { b.room = 999 }),
		"subscription 1 has no plan":    subscribed(func(b *subscription) { b.baseVersion = 99 }),
		"subscription 1 is in no state": subscribed(func(b *subscription) { b.cancelMode = 9 }),
		"the spans of subscription 1": with(func(s *state) {
			p := s.subscriptions.Read(1).firstSpan
			s.spans.Write(p).next = p
		}),
		"span 1 of subscription 1":                     with(func(s *state) { s.spans.Write(1).customer = 2 }),
		"nothing waits to be issued of subscription 1": subscribed(func(b *subscription) { b.issueAt = 5 }),
		"the sequences of subscription 1":              with(func(s *state) { s.sequences.Write(1).next = 1 }),
		"sequence 1 is of nothing that accumulates": with(func(s *state) {
			s.sequences.Write(1).feature = 99
		}),
		"the meters of span 1": with(func(s *state) {
			m := s.spans.Read(1).firstMeter
			s.meters.Write(m).next = m
		}),
		"the list of free spans":            with(func(s *state) { s.freeSpan = 1 }),
		"the list of free meters":           with(func(s *state) { s.freeMeter = s.spans.Read(1).firstMeter }),
		"invoice 1 leads nowhere":           invoiced(1, func(v *invoice) { v.subscription = 2 }),
		"invoice 1 has no plan":             invoiced(1, func(v *invoice) { v.version = 99 }),
		"invoice 2 has the number 7, not 2": invoiced(2, func(v *invoice) { v.number = 7 }),
		"environment 1 has issued 99 invoices": with(func(s *state) {
			s.environment(1).invoices = 99
		}),
		"the unpaid invoices of subscription 1": with(func(s *state) {
			v := s.subscriptions.Read(1).firstUnpaid
			changeInvoice(&s.invoices, v, func(i *invoice) { i.nextUnpaid = v })
		}),
		"invoice 2 is unpaid, or is not": with(func(s *state) {
			changeSubscription(&s.subscriptions, 1, func(b *subscription) {
				b.firstUnpaid = s.invoices.Read(b.firstUnpaid).nextUnpaid
			})
		}),
		"invoice 1 has no lines": with(func(s *state) { s.items.Write(1).Data = "\xff" }),
		"the lines of invoice 1 add up to": invoiced(1,
			func(v *invoice) { v.amount = sum(v.amount, one) }),
		"the plan changes of subscription 1 do not end": subscribed(func(b *subscription) { b.lastChange = 1 }),
		"plan change 1 leads nowhere":                   with(func(s *state) { s.planChanges.Write(1).to = 99 }),
		"the list of corrections":                       with(func(s *state) { s.corrections.Write(1).next = 1 }),
		"the list of corrections does not end":          with(func(s *state) { s.lastCorrection = 0 }),
		"correction 1 has no credits":                   with(func(s *state) { s.correctionDraws.Write(1).Data = "\xff" }),
		"999 admin changes have 1 marks":                with(func(s *state) { s.changes = 999 }),
		"the kept requests":                             with(func(s *state) { s.requests.To += 5 }),
		"a checkout or a payment":                       with(func(s *state) { s.payments.table.Write(1).Data = "\xff" }),
		"pool 1 leads nowhere":                          with(func(s *state) { s.pools.Write(1).next = 2 }),
		"pool 1 has no text":                            with(func(s *state) { s.poolTexts.Write(1).Data = "\xff" }),
		"pool 1 holds more than there is":               with(func(s *state) { s.pools.Write(1).grants = 99 }),
		"pool 2 has grant 1 of another": with(func(s *state) {
			s.pools.Write(2).firstGrant, s.pools.Write(2).grants = 1, 1
		}),
		"the lists of pool 1 do not end": with(func(s *state) { s.archives.Write(1).traces = 1 }),
		"pool 1 has 0 chunks":            with(func(s *state) { s.pools.Write(1).transactions-- }),
		"chunk 1 leads nowhere":          with(func(s *state) { s.chunks.Append() }),
		"the archive of pool 1 leads nowhere": with(func(s *state) {
			s.archives.Write(1).firstTrace = 9
		}),
		"pool 1: grants hold": with(func(s *state) {
			p := s.pools.Write(1)
			p.granted = more(p.granted, one)
		}),
		"pool 1: grants expire at": with(func(s *state) { s.pools.Write(1).nextExpiry = 5 }),
		"transaction 1 has no text": with(func(s *state) {
			s.transactionTexts.Write(1).Data = "\xff"
		}),
		"cover 1 leads nowhere":    with(func(s *state) { s.covers.Write(1).counter = 999 }),
		"subscription 1 is due at": subscribed(func(b *subscription) { b.due++ }),
	}
}
