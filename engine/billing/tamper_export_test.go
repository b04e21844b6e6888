package billing

import (
	"tollgate/engine/decimal"
	"tollgate/engine/wire"
)

// Faults change one stored number each by hand, as damaged memory or a wrong program would.
var Faults = map[string]func(*Machine){
	"a counter": func(m *Machine) {
		n := m.state.Load().counters.Write(3) // output-tokens
		n.used = sum(n.used, decimal.FromInt(1))
	},
	"usage ahead of the period": func(m *Machine) {
		n := m.state.Load().counters.Write(3)
		n.next = sum(n.next, decimal.FromInt(1000))
	},
	"what a closed span counted": func(m *Machine) {
		n := m.state.Load().meters.Write(1)
		n.quantity = sum(n.quantity, decimal.FromInt(1000))
	},
	"what is invoiced already": func(m *Machine) {
		n := m.state.Load().meters.Write(1)
		n.invoiced = sum(n.invoiced, decimal.FromInt(1000))
	},
	"the customer's credit": func(m *Machine) {
		b := m.state.Load().balances.Write(1)
		b.amount = sum(b.amount, decimal.MustParse("0.01"))
	},
	"an invoice's amount": func(m *Machine) {
		v := m.state.Load().invoices.Write(1)
		v.amount = sum(v.amount, decimal.MustParse("0.01"))
	},
	"an invoice's line": func(m *Machine) {
		s := m.state.Load()
		lines := invoiceLines{Items: s.invoiceItems(1, s.invoices.Read(1))}
		lines.Items[0].Quantity = decimal.FromInt(2)
		s.items.Write(1).data = string(wire.Encode(nil, &lines))
	},
}
