// Package bill is invoices and prices as people read them, on the operators' pages and on those of
// customers: the document that an invoice is, and plans in words.
package bill

import (
	"bytes"
	"cmp"
	"strings"
	"time"

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
	Kind        string     `json:"kind"`
	Description string     `json:"description"`
	PeriodStart string     `json:"periodStart"`
	PeriodEnd   string     `json:"periodEnd"`
	Quantity    Number     `json:"quantity"`
	UnitPrice   Number     `json:"unitPrice"`
	Tiers       []struct{} `json:"tiers"`
	Amount      Number     `json:"amount"`
	Cost        Number     `json:"costAmount"`
	Counted     Number     `json:"eventsCounted"`
}

// Invoice is an invoice of an answer.
type Invoice struct {
	ID          string `json:"id"`
	Number      Number `json:"number"`
	Type        string `json:"type"`
	Status      string `json:"status"`
	Amount      Number `json:"amount"`
	Currency    string `json:"currency"`
	Customer    string `json:"customerReferenceId"`
	CreatedAt   string `json:"createdAt"`
	DueDate     string `json:"dueDate"`
	PaidAt      string `json:"paidAt"`
	PeriodStart string `json:"periodStart"`
	PeriodEnd   string `json:"periodEnd"`
	Items       []Item `json:"items"`
}

// Title is how an invoice is called.
func (i Invoice) Title() string {
	switch {
	case i.Number == "":
		return "Pending invoice"
	case i.Type == "INTERIM":
		return "Interim invoice " + string(i.Number)
	}
	return "Invoice " + string(i.Number)
}

// Open reports whether it can be paid, or made void.
func (i Invoice) Open() bool { return i.Status == "DUE" || i.Status == "PAST_DUE" }

// dayText is a day as invoices write it; other texts stay.
func dayText(text string) string {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return text
	}
	return at.UTC().Format("2 Jan 2006")
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
	if i.PeriodStart == "" {
		return ""
	}
	return dayText(i.PeriodStart) + " – " + dayText(i.PeriodEnd)
}

// Price is the price of a unit, or that there are several.
func (i Item) Price() string {
	switch n := len(i.Tiers); {
	case n == 1:
		return "1 tier"
	case n > 1:
		return page.Amount(n) + " tiers"
	}
	return page.Amount(i.UnitPrice)
}

// credited reports whether the line takes or carries credit instead of charging.
func (i Item) credited() bool {
	return i.Kind == "carried_credit" || i.Kind == "credit_carried_over"
}

// Document is an invoice as its customer gets it: from an account, to a customer of its.
func (i *Invoice) Document(
	account string, seller *api.Seller, customer *api.Customer,
) *document.Invoice {
	d := &document.Invoice{
		Title: i.Title(), Currency: i.Currency,
		From: document.Party{Name: account}, To: document.Party{Name: i.Customer},
	}
	d.From = document.Party{
		Name: cmp.Or(seller.Name, account), Lines: addressLines(seller.Address),
	}
	d.From.Lines = append(d.From.Lines, filled("", seller.Email)...)
	d.From.Lines = append(d.From.Lines, filled("Tax number ", seller.TaxID)...)
	d.To = document.Party{Name: NameOf(customer), Lines: addressLines(customer.Address)}
	d.To.Lines = append(d.To.Lines, filled("", customer.Email)...)
	d.To.Lines = append(d.To.Lines, "Customer "+i.Customer)

	for _, f := range []document.Fact{
		{Name: "Invoice number", Value: string(i.Number)},
		{Name: "Issued", Value: dayText(i.CreatedAt)},
		{Name: "Due", Value: dayText(i.DueDate)},
		{Name: "Paid", Value: dayText(i.PaidAt)},
	} {
		if f.Value != "" {
			d.Facts = append(d.Facts, f)
		}
	}
	if i.PeriodStart != "" {
		d.Facts = append(d.Facts, document.Fact{
			Name: "Period", Value: dayText(i.PeriodStart) + " – " + dayText(i.PeriodEnd),
		})
	}
	for _, item := range i.Items {
		d.Lines = append(d.Lines, document.Line{
			What: item.Description, Period: item.Period(), Quantity: page.Amount(item.Quantity),
			Price: item.Price(), Amount: amountOf(item.Amount, i.Currency),
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
	d.Made, _ = time.Parse(time.RFC3339, i.CreatedAt) // the zero time of a pending one
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
func amountOf(amount Number, currency string) string {
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
