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
	List    invoiceListCommand           `cmd:"" help:"List the newest invoices, those past due, or a customer's."`
	Show    call[invoiceOutput, invoice] `cmd:"" call:"GET invoices/{ID}" help:"Show an invoice with its lines and what their usage cost you."`
	Explain invoiceExplainCommand        `cmd:"" help:"Recompute an invoice from the journal alone, and compare."`
	Verify  invoiceVerifyCommand         `cmd:"" help:"Recompute many invoices; ends with 5 when one differs."`
	Void    call[invoiceFlags, none]     `cmd:"" call:"POST invoices/{ID}/void" says:"Invoice {ID} is void." help:"Void an unpaid invoice, for good."`
}

// ErrDiffers means that an invoice is not what the journal explains.
var ErrDiffers = errors.New("an invoice differs from what the journal explains")

func invoiceNumber(v *api.Invoice) string {
	if v.Number == 0 {
		return "–"
	}
	return strconv.Itoa(v.Number)
}

type invoiceListCommand struct {
	environmentOutput `embed:""`
	Customer          string `arg:"" optional:"" help:"Only the invoices of this customer, oldest first, also those that are still being written."`
	Status            string `enum:",due,past_due,paid,void" default:"" help:"due, past_due, paid or void; all when absent. Of past_due and due, the oldest debt comes first."`
	Limit             int    `default:"100" help:"Maximum number of rows."`
}

// Help says in which order invoices are listed.
func (c *invoiceListCommand) Help() string {
	return "Without a customer, lists the issued invoices of all customers, the newest first. Where " +
		"more than 2,000 are past due, the newest come first, too; a note says so."
}

// Run lists invoices.
func (c *invoiceListCommand) Run(ctx context.Context, out io.Writer) error {
	status := strings.ToUpper(c.Status)
	list, order, more, err := c.search(ctx, status)
	if err != nil {
		return err
	}
	text, err := json.Marshal(list)
	var shown []api.Invoice
	if err == nil {
		err = json.Unmarshal(text, &shown)
	}
	if err != nil {
		return fmt.Errorf("answer's data: %w", err)
	}
	return c.Print(out, text, func() error {
		if len(shown) == 0 {
			return Say(out, "No such invoice in the %s environment of %s.", c.Environment, c.Account)
		}
		t := NewTable(out, "NUMBER", "ID", "TYPE", "STATUS", "AMOUNT", "ISSUED", "DUE", "CUSTOMER")
		for i := range shown {
			v := &shown[i]
			t.Row(invoiceNumber(v), v.ID, v.Type, v.Status, money(v.Amount, v.Currency),
				moment(v.CreatedAt), moment(v.DueDate), v.CustomerReferenceID)
		}
		err := t.End()
		if err == nil && sortedByDue(status) && order == "newest" {
			err = Say(out, "Too many to sort by due date: the newest are first.")
		}
		if err == nil && more {
			err = Say(out, "There are more: raise --limit.")
		}
		return err
	})
}

// sortedByDue reports whether invoices of a status are listed by when they are due.
func sortedByDue(status string) bool { return status == "PAST_DUE" || status == "DUE" }

// search asks for the invoices, page by page; order is that of the list.
func (c *invoiceListCommand) search(ctx context.Context, status string) (
	list []json.RawMessage, order string, more bool, err error,
) {
	list = []json.RawMessage{}
	if c.Customer != "" {
		list, more, err = c.ofCustomer(ctx, status)
		return list, "", more, err
	}
	query := url.Values{}
	if status != "" {
		query.Set("status", status)
	}
	if sortedByDue(status) {
		query.Set("order", "due")
	}
	for len(list) < c.Limit {
		query.Set("limit", strconv.Itoa(min(customersPage, c.Limit-len(list))))
		var page struct {
			Invoices []json.RawMessage `json:"invoices"`
			Order    string            `json:"order"`
			Next     string            `json:"nextCursor"`
		}
		if _, err = c.read(ctx, c.path()+"/invoices/search?"+query.Encode(), &page); err != nil {
			return nil, "", false, err
		}
		list, order, more = append(list, page.Invoices...), page.Order, page.Next != ""
		if !more {
			break
		}
		query.Set("cursor", page.Next)
	}
	return list, order, more, nil
}

// ofCustomer asks for the invoices of the customer.
func (c *invoiceListCommand) ofCustomer(ctx context.Context, status string) (
	list []json.RawMessage, more bool, err error,
) {
	var all []json.RawMessage
	query := url.Values{"customer": {c.Customer}}
	if _, err = c.read(ctx, c.path()+"/invoices?"+query.Encode(), &all); err != nil {
		return nil, false, err
	}
	list = []json.RawMessage{}
	for _, text := range all {
		var v api.Invoice
		if err = json.Unmarshal(text, &v); err != nil {
			return nil, false, fmt.Errorf("answer's data: %w", err)
		}
		if status != "" && v.Status != status {
			continue
		}
		if more = len(list) == c.Limit; more {
			break
		}
		list = append(list, text)
	}
	return list, more, nil
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
	return fmt.Errorf("no invoice %d in the %s environment of %s; tollgate invoice list lists "+
		"the newest",
		number, f.Environment, f.Account)
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
			price(item.UnitPrice, v.Currency), money(item.Amount, v.Currency), cost)
		for _, row := range parts(item, v.Currency) {
			t.Row("  "+row[0], "", "", row[1], row[2], row[3])
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

// price is what a unit costs; empty where a line has no price of its own.
func price(n json.Number, currency string) string {
	if n == "" {
		return ""
	}
	return money(n, currency)
}

// parts are the rows that say how a line's amount is made: name, units, price and amount. Where the
// answer does not say which units are whose, they are the tiers with their prices.
func parts(item *api.InvoiceItem, currency string) (rows [][4]string) {
	for _, p := range item.Parts {
		name := map[string]string{"units": "priced", "packages": "packages begun"}[p.Kind]
		if p.Kind == "tier" {
			name = tierName(p.UpTo)
		}
		each := money(p.UnitPrice, currency)
		if p.FlatFee != "" {
			each += " and " + money(p.FlatFee, currency)
		}
		if p.Kind == "included" {
			each = ""
		}
		rows = append(rows, [4]string{
			either(name, p.Kind), quantity(p.Units), each, money(p.Amount, currency),
		})
	}
	var tiers []struct {
		UpTo         json.RawMessage `json:"upTo"`
		PricePerUnit json.Number     `json:"pricePerUnit"`
		FlatFee      json.Number     `json:"flatFee"`
	}
	if len(rows) > 0 || json.Unmarshal(item.Tiers, &tiers) != nil {
		return rows // a line without tiers
	}
	for _, t := range tiers {
		upTo, each := json.Number(t.UpTo), money(t.PricePerUnit, currency)
		if t.UpTo[0] == '"' { // "inf"
			upTo = ""
		}
		if t.FlatFee != "0" {
			each += " and " + money(t.FlatFee, currency)
		}
		rows = append(rows, [4]string{tierName(upTo), "", each, ""})
	}
	return rows
}

// tierName names a tier by where it ends; empty is the last one.
func tierName(upTo json.Number) string {
	if upTo == "" {
		return "beyond"
	}
	return "up to " + quantity(upTo)
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
