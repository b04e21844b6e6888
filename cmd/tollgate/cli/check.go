package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/alecthomas/kong"

	api "tollgate/sdk/go"
)

type checkFlags struct {
	inClient `embed:""`
	Customer string     `arg:"" json:"customerReferenceId" help:"The customer's externalClientCustomerId."`
	Feature  string     `arg:"" json:"featureKey" help:"The feature's key."`
	Units    trackUnits `arg:"" optional:"" json:"track,omitempty" help:"Also say whether this many units would fit, and what they would cost."`
	ExitCode bool       `help:"End with exit code 5 if it is denied."`

	denied bool
}

func (c *checkFlags) send(
	ctx context.Context, method, path string, body, v any,
) (json.RawMessage, error) {
	data, err := c.inClient.send(ctx, method, path, body, v)
	c.denied = err == nil && !v.(*decision).IsAllowed
	return data, err
}

// CheckCommand asks for a decision.
type CheckCommand struct {
	Call call[checkFlags, decision] `embed:""`
}

// ErrDenied ends check --exit-code.
var ErrDenied = errors.New("denied")

// Run asks and prints.
func (c *CheckCommand) Run(ctx context.Context, out io.Writer, k *kong.Context) error {
	err := c.Call.Run(ctx, out, k)
	if flags := &c.Call.Flags; err == nil && flags.ExitCode && flags.denied {
		return ErrDenied
	}
	return err
}

// Help says what a check leaves behind.
func (c *CheckCommand) Help() string {
	return "This is the decision that your program gets from the client API: nothing is counted, " +
		"and the check is kept as an audit event."
}

// number is an exact number on the command line.
type number string

// Validate refuses a text that is not a number.
func (n number) Validate() error {
	if n != "" && (!json.Valid([]byte(n)) || n[0] != '-' && (n[0] < '0' || n[0] > '9')) {
		return fmt.Errorf("%q is not a number such as 1200 or 0.5", string(n))
	}
	return nil
}

// MarshalJSON writes it as it is.
func (n number) MarshalJSON() ([]byte, error) { return []byte(n), nil }

// trackUnits are units whose effect a check reports.
type trackUnits string

// Validate refuses a text that is not a number.
func (u trackUnits) Validate() error { return number(u).Validate() }

// MarshalJSON writes them as the client API takes them.
func (u trackUnits) MarshalJSON() ([]byte, error) {
	return []byte(`{"usageUnits":` + string(u) + `}`), nil
}

type decision struct{ api.Decision }

func (d *decision) print(out io.Writer) error {
	t := NewTable(out)
	if d.IsAllowed {
		t.Row("Decision", "allowed")
	} else {
		t.Row("Decision", "denied")
		t.Row("Reason", either(d.Meta.Reason.Description, d.Meta.Reason.Code))
	}
	if u := &d.Usage; u.Used != "" {
		used := quantity(u.Used)
		if u.Limit != "" {
			used += " of " + quantity(u.Limit) + ", " + quantity(u.Remaining) + " left"
		}
		t.Row("Used", used)
	}
	if s := d.Simulation; s != nil {
		fits := "fit: "
		switch {
		case s.WouldExceedLimit:
			fits = "do not fit: "
		case !d.IsAllowed: // for another reason than their number
			fits = "would be "
		}
		t.Row(quantity(s.RequestedUsage)+" more", fits+quantity(s.ProjectedUsage)+" in all")
		if s.ProjectedCost != "" {
			t.Row("Cost", quantity(s.ProjectedCost))
		}
	}
	return t.End()
}
