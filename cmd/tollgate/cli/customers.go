package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"

	api "tollgate/sdk/go"
)

type customersCommand struct {
	List    customersListCommand      `cmd:"" help:"List customers, the newest first."`
	Archive call[customerFlags, none] `cmd:"" call:"DELETE customers/{Customer}" says:"Customer {Customer} is archived." help:"Take a customer out of use; it stays readable."`
	Erase   customersEraseCommand     `cmd:"" help:"Replace a customer's name, e-mail, phone and address everywhere, for good."`
}

type customersListCommand struct {
	environmentOutput `embed:""`
	Limit             int `default:"100" help:"List this many at most."`
}

// customerState says what was done to a customer.
func customerState(c *api.Customer) string {
	switch {
	case !c.ErasedAt.IsZero():
		return "erased"
	case !c.ArchivedAt.IsZero():
		return "archived"
	}
	return "active"
}

// customersPage is how many customers are asked for at a time.
const customersPage = 1000

// Run lists customers, page by page.
func (c *customersListCommand) Run(ctx context.Context, out io.Writer) error {
	var rows []api.Customer
	list, cursor := []json.RawMessage{}, ""
	for len(list) < c.Limit {
		query := url.Values{"limit": {strconv.Itoa(min(customersPage, c.Limit-len(list)))}}
		if cursor != "" {
			query.Set("cursor", cursor)
		}
		var page struct {
			Customers []json.RawMessage `json:"customers"`
			Next      string            `json:"nextCursor"`
		}
		if _, err := c.read(ctx, c.path()+"/customers?"+query.Encode(), &page); err != nil {
			return err
		}
		list = append(list, page.Customers...)
		if cursor = page.Next; cursor == "" {
			break
		}
	}
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
		t := NewTable(out, "CUSTOMER", "NAME", "E-MAIL", "CREATED", "STATE")
		for i := range rows {
			r := &rows[i]
			t.Row(r.ExternalClientCustomerID, strings.TrimSpace(r.FirstName+" "+r.LastName), r.Email,
				moment(r.CreatedAt), customerState(r))
		}
		if err := t.End(); err != nil || cursor == "" {
			return err
		}
		return Say(out, "There are more: raise --limit.")
	})
}

type customersEraseCommand struct {
	customerFlags `embed:""`
	Yes           bool `help:"Required: what is erased cannot be brought back."`
}

// Run erases a customer's personal data.
func (c *customersEraseCommand) Run(ctx context.Context, out io.Writer) error {
	if !c.Yes {
		return errors.New("erasing cannot be undone: say --yes")
	}
	err := c.write(ctx, api.Request{Method: "DELETE", Path: c.customerPath() + "?erase=true"}, nil)
	if err != nil {
		return err
	}
	return Say(out, "The personal data of customer %s is erased; numbers stay.", c.Customer)
}
