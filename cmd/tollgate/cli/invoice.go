package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	api "tollgate/sdk/go"
)

type invoiceCommand struct {
	List    call[customerOutput, invoices] `cmd:"" call:"GET invoices?customer={Customer}" help:"List a customer's invoices, oldest first."`
	Show    call[invoiceOutput, invoice]   `cmd:"" call:"GET invoices/{ID}" help:"Show an invoice with its lines and what their usage cost you."`
	Explain invoiceExplainCommand          `cmd:"" help:"Recompute an invoice from the journal alone, and compare."`
	Verify  invoiceVerifyCommand           `cmd:"" help:"Recompute many invoices; ends with 5 when one differs."`
	Void    call[invoiceFlags, none]       `cmd:"" call:"POST invoices/{ID}/void" says:"Invoice {ID} is void." help:"Make an unpaid invoice void, for good."`
}

// ErrDiffers means that an invoice is not what the journal explains.
var ErrDiffers = errors.New("an invoice differs from what the journal explains")

func invoiceNumber(v *api.Invoice) string {
	if v.Number == 0 {
		return "–"
	}
	return strconv.Itoa(v.Number)
}

type invoices []api.Invoice

func (l invoices) print(out io.Writer) error {
	t := NewTable(out, "NUMBER", "ID", "TYPE", "STATUS", "AMOUNT", "ISSUED", "DUE")
	for i := range l {
		v := &l[i]
		t.Row(invoiceNumber(v), v.ID, v.Type, v.Status, money(v.Amount, v.Currency),
			moment(v.CreatedAt), moment(v.DueDate))
	}
	return t.End()
}

type invoiceFlags struct {
	inEnvironment `embed:""`
	ID            string `arg:"" name:"invoice" help:"The invoice's number or id, from invoice list."`
}

// resolve puts the invoice's id in place of its number.
func (f *invoiceFlags) resolve(ctx context.Context) error {
	if uuid.MatchString(f.ID) {
		return nil
	}
	number, err := strconv.ParseUint(strings.TrimPrefix(f.ID, "#"), 10, 64)
	if err != nil || number == 0 {
		return fmt.Errorf("%s is neither the number nor the id of an invoice. If it is a customer, "+
			"tollgate invoice list %[1]s lists its invoices", f.ID)
	}
	var found api.SearchAnswer
	query := url.Values{"q": {"invoice " + strconv.FormatUint(number, 10)}, "limit": {"50"}}
	if _, err = f.read(ctx, f.path()+"/search?"+query.Encode(), &found); err != nil {
		return err
	}
	for _, r := range found.Results {
		if r.Kind == "invoice" {
			f.ID = r.ID
			return nil
		}
	}
	if !found.Complete {
		return fmt.Errorf("the node is still looking for invoice %d; repeat the command, or use the "+
			"invoice's id", number)
	}
	return fmt.Errorf("no invoice %d in the %s environment of %s; tollgate invoice list CUSTOMER "+
		"lists a customer's", number, f.Environment, f.Account)
}

var uuid = regexp.MustCompile(`(?i)^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

type invoiceOutput struct {
	invoiceFlags `embed:""`
	OutputFlags  `embed:""`
}

type invoice struct{ api.Invoice }

func (v *invoice) print(out io.Writer) error {
	if err := printHead(out, &v.Invoice); err != nil {
		return err
	}
	t := NewTable(out, "LINE", "FEATURE", "PERIOD", "QUANTITY", "UNIT PRICE", "AMOUNT", "COST")
	for i := range v.Items {
		item := &v.Items[i]
		cost := ""
		if item.CostAmount != "" {
			cost = money(item.CostAmount, v.Currency)
		}
		t.Row(item.Description, either(item.FeatureKey, "–"), period(item), quantity(item.Quantity),
			quantity(item.UnitPrice), money(item.Amount, v.Currency), cost)
		for _, tier := range tiers(item) {
			t.Row("  "+tier[0], "", "", "", tier[1])
		}
	}
	t.Row("", "", "", "", "", money(v.Amount, v.Currency))
	return t.End()
}

// period says which days a line is for: the last one is not.
func period(item *api.InvoiceItem) string {
	if item.PeriodStart.IsZero() {
		return "–"
	}
	return item.PeriodStart.UTC().Format(time.DateOnly) + " – " +
		item.PeriodEnd.UTC().Format(time.DateOnly)
}

// tiers are the names and prices of the tiers that make a line's amount.
func tiers(item *api.InvoiceItem) (list [][2]string) {
	var all []struct {
		UpTo         json.RawMessage `json:"upTo"`
		PricePerUnit json.Number     `json:"pricePerUnit"`
		FlatFee      json.Number     `json:"flatFee"`
	}
	if json.Unmarshal(item.Tiers, &all) != nil {
		return nil // a line without tiers
	}
	for _, tier := range all {
		name, price := "up to "+quantity(json.Number(tier.UpTo)), quantity(tier.PricePerUnit)
		if tier.UpTo[0] == '"' { // "inf"
			name = "beyond"
		}
		if tier.FlatFee != "0" {
			price += " and " + quantity(tier.FlatFee)
		}
		list = append(list, [2]string{name, price})
	}
	return list
}

func printHead(out io.Writer, v *api.Invoice) error {
	t := NewTable(out)
	t.Row("Invoice", invoiceNumber(v)+" of "+v.CustomerReferenceID+", "+v.Type+", "+v.Status)
	t.Row("Id", v.ID)
	t.Row("Period", moment(v.PeriodStart)+" to "+moment(v.PeriodEnd))
	if !v.CreatedAt.IsZero() {
		t.Row("Issued", moment(v.CreatedAt)+", due "+moment(v.DueDate))
	}
	if !v.PaidAt.IsZero() {
		t.Row("Paid", moment(v.PaidAt))
	}
	t.Row("")
	return t.End()
}

type invoiceExplainCommand struct {
	invoiceOutput `embed:""`
}

// Run recomputes an invoice.
func (c *invoiceExplainCommand) Run(ctx context.Context, out io.Writer) error {
	var e struct {
		Equal      bool              `json:"equal"`
		Invoice    api.Invoice       `json:"invoice"`
		Recomputed []api.InvoiceItem `json:"recomputed"`
		First      uint64            `json:"firstLogIndex"`
		Last       uint64            `json:"lastLogIndex"`
	}
	if err := c.resolve(ctx); err != nil {
		return err
	}
	data, err := c.read(ctx, c.path()+"/invoices/"+url.PathEscape(c.ID)+"/explain", &e)
	if err != nil {
		return err
	}
	err = c.Print(out, data, func() error {
		if err := printHead(out, &e.Invoice); err != nil {
			return err
		}
		t := NewTable(out, "LINE, RECOMPUTED", "PERIOD", "QUANTITY", "EVENTS", "AMOUNT", "STORED")
		for i := range max(len(e.Recomputed), len(e.Invoice.Items)) {
			line, stored := api.InvoiceItem{Description: "–"}, "–"
			if i < len(e.Recomputed) {
				line = e.Recomputed[i]
			}
			if i < len(e.Invoice.Items) {
				stored = money(e.Invoice.Items[i].Amount, e.Invoice.Currency)
			}
			t.Row(line.Description, period(&line), quantity(line.Quantity),
				strconv.Itoa(line.EventsCounted), money(line.Amount, e.Invoice.Currency), stored)
		}
		if err := t.End(); err != nil {
			return err
		}
		verdict := "Equal: the journal explains every line."
		if !e.Equal {
			verdict = "DIFFERENT: the journal does not explain the stored lines."
		}
		if e.Last > 0 {
			verdict += " Usage is from log entries " + strconv.FormatUint(e.First, 10) + " to " +
				strconv.FormatUint(e.Last, 10) + "."
		}
		return Say(out, "\n%s", verdict)
	})
	if err == nil && !e.Equal {
		return ErrDiffers
	}
	return err
}
