package enginetest

import (
	"fmt"
	"strings"

	"tollgate/engine/billing"
	"tollgate/engine/decimal"
)

// invoiceList lists a page of a customer's invoices with the kinds of their lines:
// invoice-list CUSTOMER [status=…] [from=…] [to=…] [limit=…] [after=NUMBER] [pending].
func (s *scenario) invoiceList(l *customerLine) {
	q := billing.InvoiceQuery{
		Env: l.env, CustomerRow: l.customer.Row, Pending: l.has("pending"),
		Limit: int(l.number("limit", 0)),
		From:  l.instantOr("from", 0, 0), To: l.instantOr("to", 0, 0), HasTo: l.d.HasArg("to"),
	}
	if text := l.value("status", ""); text != "" {
		var ok bool
		if q.Status, ok = billing.InvoiceStatusNamed(text); !ok {
			l.d.Fatalf(l.t, "no status is called %s", text)
		}
	}
	if text := l.value("after", ""); text != "" {
		customer := l.customer.Row
		if other, number, named := strings.Cut(text, "/"); named {
			of, _ := s.m.Customer(l.env, other)
			customer, text = of.Row, number
		}
		q.After = s.after(l.env, customer, text)
	}
	page, ok := s.m.ListInvoices(&q)
	l.WriteString(when(!ok, "after: no invoice of this customer"))
	for i := range page.List {
		v := &page.List[i]
		fmt.Fprintf(l, "%d %s %s", v.Number, v.Status, v.Amount)
		for j := range v.Items {
			fmt.Fprintf(l, " %s", v.Items[j].Kind)
		}
		l.WriteString("\n")
	}
	l.WriteString(when(page.More, "more\n"))
}

func (s *scenario) numbered(env, customer uint32, number string) (id [16]byte, ok bool) {
	for _, v := range s.m.Invoices(env, customer) {
		if fmt.Sprint(v.Number) == number {
			return v.ID, true
		}
	}
	return id, false
}

// after finds an invoice by its number; of PENDING the newest one, of anything else an id that does
// not exist.
func (s *scenario) after(env, customer uint32, number string) (id [16]byte) {
	if id, ok := s.numbered(env, customer, number); ok {
		return id
	}
	if pending := s.m.PendingInvoices(env, customer); number == "PENDING" {
		return pending[len(pending)-1].ID
	}
	return ID("invoice " + number)
}

// usageLines prints the lines of a customer's invoices that bill usage, and what they add up to.
func (s *scenario) usageLines(l *customerLine) {
	total := decimal.Decimal{}
	for _, v := range s.m.Invoices(l.env, l.customer.Row) {
		for i := range v.Items {
			item := &v.Items[i]
			if item.FeatureKey == "" {
				continue
			}
			fmt.Fprintf(l, "%d %s of %s to %s: %s %s = %s\n", v.Number, item.Kind,
				show(item.PeriodStart)[:10], show(item.PeriodEnd)[:10], item.Quantity, item.FeatureKey,
				item.Amount)
			total, _ = total.Add(item.Amount)
		}
	}
	fmt.Fprintf(l, "total %s\n", total)
}
