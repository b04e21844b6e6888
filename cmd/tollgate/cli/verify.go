package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"time"

	api "tollgate/sdk/go"
)

type invoiceVerifyCommand struct {
	AdminFlags  `embed:""`
	All         bool   `help:"All accounts and environments; the default when nothing narrows it."`
	Account     string `help:"Only this account."`
	Environment string `name:"env" enum:"sandbox,live," default:"" help:"Only sandbox, or only live."`
	Customer    string `help:"Only this customer, by externalClientCustomerId."`
	Page        int    `default:"10000" help:"How many customers one request verifies, in one pass over the journal."`
	JSON        bool   `name:"json" help:"Print the counts and the differences as JSON, for scripts."`
}

// Help says what verifying means.
func (c *invoiceVerifyCommand) Help() string {
	return "Each invoice is recomputed from the journal's records of usage alone, never from " +
		"counters or stored lines, and compared with the stored one, in both directions: lines, " +
		"totals, number, status, dates, and the credit that is carried; and each credit pool's totals " +
		"from the events and bookings. It is done by the node that answers (choose one with --ops). " +
		"The exit code is 0 when all is the same, and 5 when something is not."
}

// verifyPatience is how long one page may take, verifyAnswer one try.
const (
	verifyPatience = 10 * time.Minute
	verifyAnswer   = 5 * time.Minute
)

// difference is an invoice or a credit pool, or all those of a customer, that the journal does not
// explain.
type difference struct {
	Account     string `json:"account"`
	Environment string `json:"environment"`
	api.Difference
}

// verification is what was verified so far. Of differences, maxDifferences are kept.
type verification struct {
	Environments int          `json:"environments"`
	Customers    uint64       `json:"customers"`
	Invoices     uint64       `json:"invoices"`
	Pools        uint64       `json:"pools"`
	Records      uint64       `json:"records"`
	Different    int          `json:"different"`
	Differences  []difference `json:"differences"`
}

const maxDifferences = 1000

// Run verifies invoices, page by page.
func (c *invoiceVerifyCommand) Run(ctx context.Context, out io.Writer) error {
	admin, err := c.Client()
	if err != nil {
		return err
	}
	defer admin.Close()
	admin.Patience, admin.AnswerTimeout = verifyPatience, verifyAnswer
	accounts := []struct{ Name string }{{c.Account}}
	if c.Account == "" {
		if _, err = admin.Call(ctx, "GET", AdminPath, nil, &accounts); err != nil {
			return err
		}
	}
	total := verification{Differences: []difference{}}
	for _, account := range accounts {
		for _, environment := range []string{"live", "sandbox"} {
			if c.Environment != "" && c.Environment != environment {
				continue
			}
			f := EnvironmentFlags{account.Name, environment}
			if err = c.environment(ctx, admin, f, &total); err != nil {
				return err
			}
		}
	}
	if err = c.report(out, &total); err == nil && total.Different > 0 {
		return ErrDiffers
	}
	return err
}

// environment verifies one environment. A customer that is named need not be in all of them.
func (c *invoiceVerifyCommand) environment(
	ctx context.Context, admin *api.Client, f EnvironmentFlags, total *verification,
) error {
	total.Environments++
	query := url.Values{"limit": {strconv.Itoa(c.Page)}}
	if c.Customer != "" {
		query.Set("customer", c.Customer)
	}
	for {
		var page struct {
			verification
			Next string `json:"nextCursor"`
		}
		_, err := admin.Call(ctx, "GET", f.path()+"/invoices/verify?"+query.Encode(), nil, &page)
		var refused *api.Error
		if errors.As(err, &refused) && refused.Code == "customer_not_found" {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s/%s: %w", f.Account, f.Environment, err)
		}
		total.Customers += page.Customers
		total.Invoices += page.Invoices
		total.Pools += page.Pools
		total.Records += page.Records
		total.Different += page.Different
		for _, d := range page.Differences {
			if len(total.Differences) < maxDifferences {
				d.Account, d.Environment = f.Account, f.Environment
				total.Differences = append(total.Differences, d)
			}
		}
		if page.Next == "" {
			return nil
		}
		query.Set("cursor", page.Next)
		begin, end := "", "\n"
		if Colours(os.Stderr) { // one line, which the next one replaces
			begin, end = "\r\x1b[K", ""
		}
		if _, err := fmt.Fprintf(os.Stderr, "%s%s/%s: %d customers, %d invoices …%s", begin,
			f.Account, f.Environment, total.Customers, total.Invoices, end); err != nil {
			return fmt.Errorf("print: %w", err)
		}
	}
}

func (c *invoiceVerifyCommand) report(out io.Writer, v *verification) error {
	if c.JSON {
		text, err := json.Marshal(v)
		if err != nil {
			return fmt.Errorf("print: %w", err)
		}
		return Say(out, "%s", text)
	}
	if v.Customers == 0 && c.Customer != "" {
		return fmt.Errorf("there is no customer %q", c.Customer)
	}
	if len(v.Differences) > 0 {
		t := NewTable(out, "ACCOUNT", "ENVIRONMENT", "CUSTOMER", "NUMBER", "INVOICE OR POOL",
			"PROBLEM")
		for _, d := range v.Differences {
			t.Row(d.Account, d.Environment,
				either(d.CustomerReferenceID, "row "+strconv.Itoa(d.CustomerRow)), strconv.Itoa(d.Number),
				either(d.InvoiceID, d.PoolID, "–"), d.Problem)
		}
		if err := t.End(); err != nil {
			return err
		}
	}
	return Say(out, "%d invoices and %d credit pools of %d customers in %d environments: "+
		"%d different.", v.Invoices, v.Pools, v.Customers, v.Environments, v.Different)
}
