package billing

import (
	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/credits"
	"tollgate/engine/billing/internal/sums"
	"tollgate/engine/decimal"
)

// Damages are ways in which a state may not fit together, each with what Restore says of it.
// Each changes the state of a machine that TestRestoreRefusesWhatDoesNotFit describes.
func Damages() map[string]func(m *Machine) {
	with := func(change func(s *state)) func(m *Machine) {
		return func(m *Machine) { change(m.state.Load()) }
	}
	subscribed := func(change func(b *book.Subscription)) func(m *Machine) {
		return with(func(s *state) { changeSubscription(&s.Subscriptions, 1, change) })
	}
	invoiced := func(row uint32, change func(v *book.Invoice)) func(m *Machine) {
		return with(func(s *state) { changeInvoice(&s.Invoices, row, change) })
	}
	one := decimal.FromInt(1)
	return map[string]func(m *Machine){
		"customer 1 leads nowhere": with(func(s *state) { s.Customers.Write(1).Env = 99 }),
		"the subscriptions of customer 1 do not end": with(func(s *state) {
			cold := s.Customers.Cold(1)
			cold.Subscriptions++
			s.Customers.SetCold(1, cold)
		}),
		"customer 2 has subscription 1 of another": with(func(s *state) {
			s.Customers.Write(2).FirstSubscription = 1
			cold := s.Customers.Cold(2)
			cold.LastSubscription = 1
			s.Customers.SetCold(2, cold)
		}),
		"the invoices of customer 1 do not end": with(func(s *state) {
			s.Customers.Write(1).LastInvoice = 1
		}),
		"the balances of customer 1": with(func(s *state) {
			b := s.Customers.Cold(1).FirstBalance
			s.Balances.Write(b).Next = b
		}),
		"customer 1 has no profile":     with(func(s *state) { s.Profiles.Write(1).Data = "\xff" }),
		"subscription 1 leads nowhere":  subscribed(func(b *book.Subscription) { b.Room = 999 }),
		"subscription 1 has no plan":    subscribed(func(b *book.Subscription) { b.BaseVersion = 99 }),
		"subscription 1 is in no state": subscribed(func(b *book.Subscription) { b.CancelMode = 9 }),
		"the spans of subscription 1": with(func(s *state) {
			p := s.Subscriptions.Read(1).FirstSpan
			s.Spans.Write(p).Next = p
		}),
		"span 1 of subscription 1":                     with(func(s *state) { s.Spans.Write(1).Customer = 2 }),
		"nothing waits to be issued of subscription 1": subscribed(func(b *book.Subscription) { b.IssueAt = 5 }),
		"the sequences of subscription 1":              with(func(s *state) { s.Sequences.Write(1).Next = 1 }),
		"sequence 1 is of nothing that accumulates": with(func(s *state) {
			s.Sequences.Write(1).Feature = 99
		}),
		"the meters of span 1": with(func(s *state) {
			m := s.Spans.Read(1).FirstMeter
			s.Meters.Write(m).Next = m
		}),
		"the list of free spans":            with(func(s *state) { s.FreeSpan = 1 }),
		"the list of free meters":           with(func(s *state) { s.FreeMeter = s.Spans.Read(1).FirstMeter }),
		"invoice 1 leads nowhere":           invoiced(1, func(v *book.Invoice) { v.Subscription = 2 }),
		"invoice 1 has no plan":             invoiced(1, func(v *book.Invoice) { v.Version = 99 }),
		"invoice 1 is in no state":          invoiced(1, func(v *book.Invoice) { v.Status = 200 }),
		"invoice 2 has the number 7, not 2": invoiced(2, func(v *book.Invoice) { v.Number = 7 }),
		"environment 1 has issued 99 invoices": with(func(s *state) {
			s.Environment(1).Invoices = 99
		}),
		"the unpaid invoices of subscription 1": with(func(s *state) {
			v := s.Subscriptions.Read(1).FirstUnpaid
			changeInvoice(&s.Invoices, v, func(i *book.Invoice) { i.NextUnpaid = v })
		}),
		"invoice 2 is unpaid, or is not": with(func(s *state) {
			changeSubscription(&s.Subscriptions, 1, func(b *book.Subscription) {
				b.FirstUnpaid = s.Invoices.Read(b.FirstUnpaid).NextUnpaid
			})
		}),
		"invoice 1 has no lines": with(func(s *state) { s.Items.Put(1, []byte("\xff")) }),
		"the lines of invoice 1 add up to": invoiced(1,
			func(v *book.Invoice) { v.Amount = sums.Of(v.Amount, one) }),
		"the plan changes of subscription 1 do not end": subscribed(func(b *book.Subscription) { b.LastChange = 1 }),
		"plan change 1 leads nowhere":                   with(func(s *state) { s.PlanChanges.Write(1).To = 99 }),
		"the list of corrections":                       with(func(s *state) { s.corrections.Write(1).next = 1 }),
		"the list of corrections does not end":          with(func(s *state) { s.LastCorrection = 0 }),
		"correction 1 has no credits":                   with(func(s *state) { s.correctionDraws.Write(1).Data = "\xff" }),
		"999 admin changes have 1 marks":                with(func(s *state) { s.Changes = 999 }),
		"the kept requests":                             with(func(s *state) { s.requests.To += 5 }),
		"a checkout or a payment":                       with(func(s *state) { s.payments.table.Write(1).Data = "\xff" }),
		"pool 1 leads nowhere":                          with(func(s *state) { s.Pools.Write(1).Next = 2 }),
		"pool 1 has no text":                            with(func(s *state) { s.PoolTexts.Write(1).Data = "\xff" }),
		"pool 1 holds more than there is":               with(func(s *state) { s.Pools.Write(1).Grants = 99 }),
		"pool 2 has grant 1 of another": with(func(s *state) {
			s.Pools.Write(2).FirstGrant, s.Pools.Write(2).Grants = 1, 1
		}),
		"the lists of pool 1 do not end": with(func(s *state) { s.Archives.Write(1).Traces = 1 }),
		"pool 1 has 0 chunks":            with(func(s *state) { s.Pools.Write(1).Transactions-- }),
		"chunk 1 leads nowhere":          with(func(s *state) { s.Chunks.Append() }),
		"the archive of pool 1 leads nowhere": with(func(s *state) {
			s.Archives.Write(1).FirstTrace = 9
		}),
		"pool 1: grants hold": with(func(s *state) {
			p := s.Pools.Write(1)
			p.Granted = credits.More(p.Granted, one)
		}),
		"pool 1: grants expire at": with(func(s *state) { s.Pools.Write(1).NextExpiry = 5 }),
		"transaction 1 has no text": with(func(s *state) {
			s.TransactionTexts.Write(1).Data = "\xff"
		}),
		"what was told 1 leads nowhere": with(func(s *state) {
			_, v := s.Told.Rows.Append()
			v.Counter = 999
		}),
		"interim units 1 lead nowhere": with(func(s *state) {
			_, n := s.Interims.Append()
			n.Counter = 999
		}),
		"cover 1 leads nowhere":    with(func(s *state) { s.Covers.Write(1).Counter = 999 }),
		"subscription 1 is due at": subscribed(func(b *book.Subscription) { b.Due++ }),
	}
}
