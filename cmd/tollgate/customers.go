package main

import (
	"context"
	"errors"
	"io"

	"tollgate/cmd/tollgate/api"
)

type customersCommand struct {
	Archive customersArchiveCommand `cmd:"" help:"Take a customer out of use; it stays readable."`
	Erase   customersEraseCommand   `cmd:"" help:"Replace a customer's name, e-mail, phone and address everywhere, for good."`
}

type customersArchiveCommand struct {
	customerFlags `embed:""`
}

// Run archives a customer.
func (c *customersArchiveCommand) Run(ctx context.Context, out io.Writer) error {
	if err := c.write(ctx, api.Request{Method: "DELETE", Path: c.customerPath()}, nil); err != nil {
		return err
	}
	return say(out, "Customer %s is archived.", c.Customer)
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
	return say(out, "The personal data of customer %s is erased; numbers stay.", c.Customer)
}
