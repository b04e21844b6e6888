package enginetest

import (
	"fmt"
	"strings"

	"tollgate/engine/billing"
	"tollgate/engine/decimal"
)

// invoiceList lists a page of a customer's invoices with the kinds of their lines:
// invoice-list CUSTOMER [status=…] [from=…] [to=…] [limit=…] [after=NUMBER] [pending].
func (s *scenario) invoiceList(l *line) string {
	env := s.environment(l)
	c, ok := s.m.Customer(env, l.word(0))
	if !ok {
		return "unknown"
	}
	q := billing.InvoiceQuery{
		Env: env, CustomerRow: c.Row, Pending: l.has("pending"), Limit: int(l.number("limit", 0)),
	}
	if text := l.value("status", ""); text != "" {
		if q.Status, ok = billing.InvoiceStatusNamed(text); !ok {
			l.d.Fatalf(l.t, "no status is called %s", text)
		}
	}
	if text := l.value("from", ""); text != "" {
		q.From = l.instant(text, 0)
	}
	if text := l.value("to", ""); text != "" {
		q.To, q.HasTo = l.instant(text, 0), true
	}
	if text := l.value("after", ""); text != "" {
		customer := c.Row
		if other, number, named := strings.Cut(text, "/"); named {
			of, _ := s.m.Customer(env, other)
			customer, text = of.Row, number
		}
		q.After = s.after(env, customer, text)
	}
	page, ok := s.m.ListInvoices(&q)
	if !ok {
		return "after: no invoice of this customer"
	}
	return either(listed(&page), "none")
}

// after finds an invoice by its number; of PENDING the newest one, of anything else an id that does
// not exist.
func (s *scenario) after(env, customer uint32, number string) (id [16]byte) {
	for _, v := range s.m.Invoices(env, customer) {
		if fmt.Sprint(v.Number) == number {
			return v.ID
		}
	}
	if pending := s.m.PendingInvoices(env, customer); number == "PENDING" {
		return pending[len(pending)-1].ID
	}
	return ID("invoice " + number)
}

func listed(page *billing.InvoicePage) string {
	var b strings.Builder
	for i := range page.List {
		v := &page.List[i]
		fmt.Fprintf(&b, "%d %s %s", v.Number, v.Status, v.Amount)
		for j := range v.Items {
			fmt.Fprintf(&b, " %s", v.Items[j].Kind)
		}
		b.WriteString("\n")
	}
	if page.More {
		b.WriteString("more\n")
	}
	return b.String()
}

// usageLines prints the lines of a customer's invoices that bill usage, and what they add up to.
func (s *scenario) usageLines(l *line) string {
	env := s.environment(l)
	c, ok := s.m.Customer(env, l.word(0))
	if !ok {
		return "unknown"
	}
	var b strings.Builder
	total := decimal.Decimal{}
	for _, v := range s.m.Invoices(env, c.Row) {
		for i := range v.Items {
			item := &v.Items[i]
			if item.FeatureKey == "" {
				continue
			}
			fmt.Fprintf(&b, "%d %s of %s to %s: %s %s = %s\n", v.Number, item.Kind,
				show(item.PeriodStart)[:10], show(item.PeriodEnd)[:10], item.Quantity, item.FeatureKey,
				item.Amount)
			total, _ = total.Add(item.Amount)
		}
	}
	fmt.Fprintf(&b, "total %s\n", total)
	return b.String()
}
