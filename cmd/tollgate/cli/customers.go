package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	api "tollgate/sdk/go"
)

type customersCommand struct {
	List    customersListCommand              `cmd:"" help:"List customers, newest first, or by amount owed or monthly revenue."`
	Show    call[ofCustomer, customer]        `cmd:"" call:"GET /customers/{Customer}" help:"Show a customer with its subscriptions and credits."`
	Usage   call[customersUsage, rankedUsage] `cmd:"" call:"GET usage/customers" help:"Rank customers by what they used."`
	Denied  call[customersDenied, denials]    `cmd:"" call:"GET checks/denied" help:"Rank customers by denied checks, and say why."`
	Create  customersCreateCommand            `cmd:"" help:"Create a customer."`
	Change  call[customersChange, none]       `cmd:"" call:"PATCH /customers/{Customer}" says:"Customer {Customer} is changed." help:"Change a customer's name, e-mail, phone or address, which invoices show."`
	Archive call[customerFlags, none]         `cmd:"" call:"DELETE customers/{Customer}" says:"Customer {Customer} is archived." help:"Archive a customer: it stays readable, and can no longer be used."`
	Erase   call[eraseFlags, none]            `cmd:"" call:"DELETE customers/{Customer}?erase=true" says:"The personal data of customer {Customer} is erased; numbers stay." help:"Erase a customer's name, e-mail, phone and address everywhere, for good."`
}

type customersChange struct {
	ofCustomer  `embed:""`
	FirstName   string `json:"firstName,omitempty" help:"First name; unchanged if absent, like all of these."`
	LastName    string `json:"lastName,omitempty" help:"Last name."`
	Email       string `json:"email,omitempty" help:"E-mail address."`
	PhoneNumber string `json:"phoneNumber,omitempty" help:"Phone number."`
	Address     string `json:"address,omitempty" help:"Postal address, its lines separated by commas."`
}

type customersUsage struct {
	environmentOutput `embed:""`
	Feature           string `query:"feature,omitempty" placeholder:"KEY" help:"By the units of this feature; by the events of all if absent."`
	Sort              string `query:"sort,omitempty" enum:",price" default:"" help:"price: by what the usage adds to bills, instead."`
	Currency          string `query:"currency,omitempty" placeholder:"CODE" help:"The currency of the price. Default: the one with most subscriptions."`
	By                string `query:"by" default:"day" enum:"hour,day,month" help:"A range has whole ones of these: hour, day or month."`
	From              string `query:"from,omitempty" placeholder:"TIME" help:"Earliest instant, RFC 3339."`
	To                string `query:"to,omitempty" placeholder:"TIME" help:"Instants before this, RFC 3339."`
	Limit             int    `query:"limit" default:"20" help:"Maximum number of rows, up to 10,000."`
}

// ranking is the time that a ranking of customers is about, and how many it leaves out.
type ranking struct {
	From, To time.Time
	Others   int
}

// end prints a ranking, and what it leaves out.
func (r *ranking) end(out io.Writer, t *table) error {
	if err := t.End(); err != nil || r.Others == 0 {
		return err
	}
	return Say(out, "and %d more, from %s to %s", r.Others, moment(r.From), moment(r.To))
}

type rankedUsage struct {
	ranking
	Customers []api.CustomerUsage
}

func (r *rankedUsage) print(out io.Writer) error {
	columns := []string{"CUSTOMER", "EVENTS", "UNITS"}
	priced := slices.ContainsFunc(r.Customers, func(c api.CustomerUsage) bool { return c.Price != "" })
	if priced {
		columns = append(columns, "PRICE")
	}
	t := NewTable(out, columns...)
	for _, c := range r.Customers {
		row := []string{c.CustomerReferenceID, strconv.Itoa(c.Events), quantity(c.UsageUnits)}
		if priced {
			row = append(row, quantity(c.Price)+" "+c.Currency)
		}
		t.Row(row...)
	}
	return r.end(out, t)
}

type customersDenied struct {
	environmentOutput `embed:""`
	Reason            string `query:"reason,omitempty" placeholder:"REASON" help:"For this reason, such as limit_reached; for all if absent."`
	From              string `query:"from,omitempty" placeholder:"TIME" help:"Earliest instant, RFC 3339; 30 days ago if absent."`
	To                string `query:"to,omitempty" placeholder:"TIME" help:"Instants before this, RFC 3339."`
	Limit             int    `query:"limit" default:"20" help:"Maximum number of rows, up to 10,000."`
}

type denials struct {
	ranking
	Customers []api.CustomerDenials
}

func (d *denials) print(out io.Writer) error {
	t := NewTable(out, "CUSTOMER", "REASON", "CHECKS")
	for _, c := range d.Customers {
		t.Row(c.CustomerReferenceID, c.Reason, strconv.Itoa(c.Checks))
	}
	return d.end(out, t)
}

type customersListCommand struct {
	environmentOutput `embed:""`
	Sort              string `enum:",owed,pastDue,monthlyRecurring" default:"" help:"owed, pastDue or monthlyRecurring: those with the largest amount first, without those who have none. Default: the newest first."`
	Currency          string `placeholder:"CODE" help:"The currency of what is sorted by. Default: the one with most subscriptions."`
	Limit             int    `default:"100" help:"Maximum number of rows."`
}

// customerState says what was done to a customer.
func customerState(archived, erased time.Time) string {
	switch {
	case !erased.IsZero():
		return "erased"
	case !archived.IsZero():
		return "archived"
	}
	return "active"
}

// customer is a customer as the client API shows it.
type customer struct{ api.Customer }

func (c *customer) print(out io.Writer) error {
	t := NewTable(out)
	t.Row("Customer", c.ExternalClientCustomerID)
	t.Row("Name", strings.TrimSpace(c.FirstName+" "+c.LastName))
	t.Row("E-mail", c.Email)
	t.Row("Phone", either(c.PhoneNumber, "–"))
	t.Row("Address", either(c.Address, "–"))
	t.Row("Created", moment(c.CreatedAt))
	t.Row("State", customerState(c.ArchivedAt, c.ErasedAt))
	err := t.End()
	if err == nil && len(c.Subscriptions) > 0 {
		err = errors.Join(Say(out, ""), subscriptions(c.Subscriptions).print(out))
	}
	if err == nil && len(c.CreditPools) > 0 {
		err = errors.Join(Say(out, ""), pools(c.CreditPools).print(out))
	}
	return err
}

type customersCreateCommand struct {
	inClient    `embed:""`
	ID          string `arg:"" optional:"" help:"The customer's externalClientCustomerId: your own name for it. Default: a generated one."`
	FirstName   string `required:"" help:"First name."`
	LastName    string `required:"" help:"Last name."`
	Email       string `required:"" help:"E-mail address."`
	PhoneNumber string `help:"Phone number."`
	Address     string `help:"Postal address."`
}

// Run creates a customer, and shows it.
func (c *customersCreateCommand) Run(ctx context.Context, out io.Writer) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	defer client.Close()
	id, err := client.CreateCustomer(ctx, api.CustomerRequest{
		ExternalClientCustomerID: c.ID, FirstName: c.FirstName, LastName: c.LastName,
		Email: c.Email, PhoneNumber: c.PhoneNumber, Address: c.Address,
	})
	if err != nil {
		return err
	}
	var made customer
	path := c.root() + "/customers/" + url.PathEscape(id)
	data, err := send(ctx, client, "GET", path, nil, &made)
	return c.answer(out, data, err, func() error { return made.print(out) })
}

// listedCustomer is a customer as the admin API lists it.
type listedCustomer struct{ api.ListedCustomer }

func (c *listedCustomer) plans() string {
	var all []string
	for _, p := range c.Plans {
		if p.Status != "active" {
			p.Key += " (" + p.Status + ")"
		}
		all = append(all, p.Key)
	}
	return either(strings.Join(all, ", "), "–")
}

// sum is one of the amounts in each currency that has it.
func (c *listedCustomer) sum(of func(*api.StandingAmount) json.Number) string {
	var all []string
	for i := range c.Amounts {
		if amount := of(&c.Amounts[i]); amount != "0" {
			all = append(all, quantity(amount)+" "+c.Amounts[i].Currency)
		}
	}
	return either(strings.Join(all, ", "), "–")
}

func (c *listedCustomer) owed() string {
	return c.sum(func(a *api.StandingAmount) json.Number { return a.Owed })
}

func (c *listedCustomer) pastDue() string {
	return c.sum(func(a *api.StandingAmount) json.Number { return a.PastDue })
}

// customersPage is how many customers are asked for at a time.
const customersPage = 1000

// pages reads customers, page by page, up to the limit; cursor is where there are more, omitted how
// many a sorted list leaves out.
func (c *customersListCommand) pages(
	ctx context.Context,
) (list []json.RawMessage, cursor string, omitted int, err error) {
	list = []json.RawMessage{}
	progress := StartList("reading customers", c.Limit)
	defer progress.End()
	for len(list) < c.Limit {
		query := url.Values{"limit": {strconv.Itoa(min(customersPage, c.Limit-len(list)))}}
		for name, value := range map[string]string{
			"cursor": cursor, "sort": c.Sort, "currency": c.Currency,
		} {
			if value != "" {
				query.Set(name, value)
			}
		}
		var page struct {
			Customers []json.RawMessage `json:"customers"`
			Next      string            `json:"nextCursor"`
			Omitted   int               `json:"omitted"`
		}
		if _, err := c.read(ctx, c.path()+"/customers?"+query.Encode(), &page); err != nil {
			return nil, "", 0, err
		}
		list, omitted = append(list, page.Customers...), page.Omitted
		progress.Add(int64(len(page.Customers)))
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	return list, cursor, omitted, nil
}

// Run lists customers.
func (c *customersListCommand) Run(ctx context.Context, out io.Writer) error {
	list, cursor, omitted, err := c.pages(ctx)
	if err != nil {
		return err
	}
	var rows []listedCustomer
	text, err := json.Marshal(list)
	if err == nil {
		err = json.Unmarshal(text, &rows)
	}
	if err != nil {
		return fmt.Errorf("answer's data: %w", err)
	}
	return c.Print(out, text, func() error {
		if len(rows) == 0 {
			return Say(out, "No customers in the %s environment of %s.", c.Environment, c.Account)
		}
		t := NewTable(out, "CUSTOMER", "NAME", "E-MAIL", "CREATED", "STATE", "PLANS", "OWED",
			"PAST DUE")
		for i := range rows {
			r := &rows[i]
			t.Row(r.ExternalClientCustomerID, strings.TrimSpace(r.FirstName+" "+r.LastName), r.Email,
				moment(r.CreatedAt), customerState(r.ArchivedAt, r.ErasedAt), r.plans(), r.owed(),
				r.pastDue())
		}
		err := t.End()
		if err == nil && cursor != "" {
			err = Say(out, "There are more: raise --limit.")
		}
		if err == nil && cursor == "" && omitted > 0 { // else what is not read yet is more
			err = Say(out, "A sorted list has no more than %d: %d customers are left out.",
				len(rows), omitted)
		}
		return err
	})
}

type eraseFlags struct {
	customerFlags `embed:""`
	Yes           bool `help:"Required: erased data cannot be restored."`
}

func (f *eraseFlags) send(
	ctx context.Context, method, path string, body, v any,
) (json.RawMessage, error) {
	if !f.Yes {
		return nil, errors.New("erasing cannot be undone: say --yes")
	}
	return f.customerFlags.send(ctx, method, path, body, v)
}
