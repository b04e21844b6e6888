// Package bill is invoices and prices as people read them, on the operators' pages and on those of
// customers: the document that an invoice is, and plans in words.
package bill

import (
	"bytes"
	"cmp"
	"strconv"
	"strings"
	"time"

	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	api "tollgate/sdk/go"
	"tollgate/server/console/page"
	"tollgate/server/document"
)

// Number is an exact number of an answer, as text: it is shown, never reckoned with.
type Number string

// UnmarshalJSON takes a number's digits as they are.
func (n *Number) UnmarshalJSON(text []byte) error {
	*n = Number(bytes.Trim(text, `"`))
	return nil
}

// Item is a line of an invoice.
type Item struct {
	api.InvoiceItem
	// Counted is eventsCounted; a line may have counted none.
	Counted Number `json:"eventsCounted"`
}

// Invoice is an invoice of an answer.
type Invoice struct {
	api.Invoice
	Items []Item `json:"items"`
}

// Digits are those of an invoice's number; a pending one has none.
func (i *Invoice) Digits() string {
	if i.Number == 0 {
		return ""
	}
	return strconv.Itoa(i.Number)
}

// Title is how an invoice is called.
func (i Invoice) Title() string {
	switch {
	case i.Number == 0:
		return "Pending invoice"
	case i.Type == "INTERIM":
		return "Interim invoice " + i.Digits()
	}
	return "Invoice " + i.Digits()
}

// Open reports whether it can be paid, or made void.
func (i Invoice) Open() bool { return i.Status == "DUE" || i.Status == "PAST_DUE" }

// day is a day as invoices write it; empty for none.
func day(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return page.Day(at)
}

// addressLines are the lines of an address, which is one text with commas.
func addressLines(address string) (lines []string) {
	for _, line := range strings.Split(address, ",") {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// Period is what a line is for.
func (i Item) Period() string {
	if i.PeriodStart.IsZero() {
		return ""
	}
	return day(i.PeriodStart) + " – " + day(i.PeriodEnd)
}

// credited reports whether the line takes or carries credit instead of charging.
func (i Item) credited() bool {
	return i.Kind == "carried_credit" || i.Kind == "credit_carried_over"
}

// Of is an invoice as its customer gets it, from an account's environment: seller and customer are
// as they were when it was issued, of a pending one as they are.
func Of(m *billing.Machine, env uint32, account string, i *Invoice) *document.Invoice {
	number := uint64(i.Number)
	s := m.SellerOf(env, number)
	c, _ := m.CustomerOn(env, i.CustomerReferenceID, number)
	return i.Document(account,
		&api.Seller{Name: s.Name, Address: s.Address, Email: s.Email, TaxID: s.TaxID},
		&api.Customer{
			ExternalClientCustomerID: i.CustomerReferenceID, FirstName: c.FirstName,
			LastName: c.LastName, Email: c.Email, Address: c.Address,
		})
}

// Document is an invoice as its customer gets it: from an account, to a customer of its.
func (i *Invoice) Document(
	account string, seller *api.Seller, customer *api.Customer,
) *document.Invoice {
	d := &document.Invoice{
		Title: i.Title(), Currency: i.Currency,
		From: document.Party{Name: account}, To: document.Party{Name: i.CustomerReferenceID},
	}
	d.From = document.Party{
		Name: cmp.Or(seller.Name, account), Lines: addressLines(seller.Address),
	}
	d.From.Lines = append(d.From.Lines, filled("", seller.Email)...)
	d.From.Lines = append(d.From.Lines, filled("Tax number ", seller.TaxID)...)
	d.To = document.Party{Name: NameOf(customer), Lines: addressLines(customer.Address)}
	d.To.Lines = append(d.To.Lines, filled("", customer.Email)...)
	d.To.Lines = append(d.To.Lines, "Customer "+i.CustomerReferenceID)

	for _, f := range []document.Fact{
		{Name: "Invoice number", Value: i.Digits()},
		{Name: "Issued", Value: day(i.CreatedAt)},
		{Name: "Due", Value: day(i.DueDate)},
		{Name: "Paid", Value: day(i.PaidAt)},
	} {
		if f.Value != "" {
			d.Facts = append(d.Facts, f)
		}
	}
	if !i.PeriodStart.IsZero() {
		d.Facts = append(d.Facts, document.Fact{
			Name: "Period", Value: day(i.PeriodStart) + " – " + day(i.PeriodEnd),
		})
	}
	for _, item := range i.Items {
		d.Lines = append(d.Lines, document.Line{
			What: item.Description, Period: item.Period(), Quantity: page.Amount(item.Quantity),
			Price: item.Price(i.Currency), Amount: amountOf(item.Amount, i.Currency),
			Parts: item.parts(i.Currency),
		})
	}
	d.Sums = i.sums()
	switch i.Status {
	case "PAID":
		d.Stamp, d.StampColour = "PAID", [3]int{35, 112, 63}
	case "PAST_DUE", "VOID":
		d.Stamp, d.StampColour = strings.ToUpper(page.Words(i.Status)), [3]int{166, 43, 31}
	case "PENDING":
		d.Stamp = "NOT ISSUED YET"
	}
	d.Made = i.CreatedAt // the zero time of a pending one
	return d
}

// NameOf is what a person calls a customer.
func NameOf(c *api.Customer) string {
	if name := strings.TrimSpace(c.FirstName + " " + c.LastName); name != "" {
		return name
	}
	return c.ExternalClientCustomerID
}

// filled is a line that is there where its text is.
func filled(before, text string) []string {
	if text == "" {
		return nil
	}
	return []string{before + text}
}

// amountOf is an amount of a currency, whose name stands elsewhere.
func amountOf(amount any, currency string) string {
	return strings.TrimSuffix(page.Money(amount, currency), " "+currency)
}

// sums are what stands below an invoice's lines: the sum of what was charged, credit, the total,
// what is paid, and what is to pay.
func (i *Invoice) sums() []document.Fact {
	total := document.Fact{Name: "Total", Value: page.Money(i.Amount, i.Currency)}
	charged, credit := decimal.Decimal{}, decimal.Decimal{}
	exact := true
	for _, item := range i.Items {
		amount, err := decimal.Parse(string(item.Amount))
		exact = exact && err == nil
		ok := true
		if item.credited() {
			credit, ok = credit.Add(amount)
		} else {
			charged, ok = charged.Add(amount)
		}
		exact = exact && ok
	}
	var sums []document.Fact
	if exact {
		sums = append(sums, document.Fact{
			Name: "Subtotal", Value: page.Money(charged.String(), i.Currency),
		})
		if credit.Sign() != 0 {
			sums = append(sums, document.Fact{
				Name: "Credit", Value: page.Money(credit.String(), i.Currency),
			})
		}
	}
	sums = append(sums, total)
	none := page.Money("0", i.Currency)
	switch i.Status {
	case "PAID":
		return append(sums, document.Fact{Name: "Paid", Value: total.Value},
			document.Fact{Name: "To pay", Value: none})
	case "VOID":
		return append(sums, document.Fact{Name: "Void, to pay", Value: none})
	case "PENDING":
		return sums
	}
	return append(sums, document.Fact{Name: "Paid", Value: none},
		document.Fact{Name: "To pay", Value: total.Value})
}

// Composed says what an invoice of several kinds of lines comes to: base 20.00 + usage 0.06. It is
// empty where there is one kind.
func (i Invoice) Composed() string {
	kinds := []struct{ kind, word string }{
		{"base", "base"},
		{"usage", "usage"},
		{"late_usage", "late usage"},
		{"proration_credit", "credit of the plan before"},
		{"proration_charge", "rest of this period"},
		{"credit_carried_over", "credit carried over"},
		{"carried_credit", "credit"},
	}
	text, count := "", 0
	for _, k := range kinds {
		sum, found := decimal.Decimal{}, false
		for _, item := range i.Items {
			if item.Kind != k.kind {
				continue
			}
			amount, err := decimal.Parse(string(item.Amount))
			all, fits := sum.Add(amount)
			if err != nil || !fits {
				return ""
			}
			sum, found = all, true
		}
		if found {
			if count++; count > 1 {
				text += " + "
			}
			text += k.word + " " + amountOf(sum.String(), i.Currency)
		}
	}
	if count < 2 {
		return ""
	}
	return text
}
