package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	api "tollgate/sdk/go"
)

type reservationsCommand struct {
	List    call[reservationsList, reservations]   `cmd:"" call:"GET /reservations" help:"List the reservations of a customer or in a budget, newest first."`
	Show    call[reservationFlags, reservation]    `cmd:"" call:"GET /reservations/{Reservation}" help:"Show a reservation."`
	Reserve call[reservationsReserve, reservation] `cmd:"" call:"POST /reservations" help:"Hold units of a feature until they are settled, once for each key."`
	Settle  call[reservationsSettle, reservation]  `cmd:"" call:"POST /reservations/{Reservation}/settle" help:"Record what was used, and release the rest."`
	Extend  call[reservationsExtend, reservation]  `cmd:"" call:"POST /reservations/{Reservation}/extend" help:"Hold more, or for longer."`
	Release call[reservationFlags, reservation]    `cmd:"" call:"POST /reservations/{Reservation}/release" help:"Release what is held."`
}

type reservationsList struct {
	inClient `embed:""`
	Customer string `arg:"" optional:"" query:"customerReferenceId,omitempty" help:"The customer's externalClientCustomerId. Needed without a budget or a state."`
	Budget   string `query:"budget,omitempty" help:"Only those in this budget, or below it."`
	State    string `query:"state,omitempty" enum:"open,settled,released,expired,billed," default:"" help:"Only those that are open, settled, released, expired or billed."`
	Cursor   string `query:"cursor,omitempty" help:"Cursor printed by the previous page."`
}

// reservationFlags name one reservation.
type reservationFlags struct {
	inClient    `embed:""`
	Reservation string `arg:"" help:"The reservation's id."`
}

type reservationsReserve struct {
	inClient       `embed:""`
	Customer       string     `arg:"" json:"customerReferenceId" help:"The customer's externalClientCustomerId."`
	Items          []heldItem `arg:"" json:"items" sep:"none" placeholder:"FEATURE=UNITS" help:"Units of features, all or none: tokens=1200, or tokens=1200@0.02 with the provider's cost of them."`
	ReservationKey string     `required:"" json:"reservationKey" placeholder:"KEY" help:"The reservation's key: repeated with it, the command holds once."`
	TTL            int        `name:"ttl" json:"ttlSeconds,omitempty" placeholder:"SECONDS" help:"How long it lasts, at most a day. Default: 600."`
	OnShortage     string     `json:"onShortage,omitempty" enum:"refuse,partial," default:"" help:"What to do if less is left: refuse (default), or hold what there is (partial)."`
	Overrun        string     `json:"overrun,omitempty" enum:"record,refuse," default:"" help:"What a settlement does with units beyond the hold that do not fit: record (default) or refuse."`
	OnExpiry       string     `json:"onExpiry,omitempty" enum:"release,settle," default:"" help:"What happens when it expires: release it (default), or settle it as usage."`
	Budget         string     `json:"budget,omitempty" placeholder:"KEY" help:"The budget that holds the units. Default: the customer's own."`
	DryRun         bool       `json:"dryRun,omitempty" help:"Give the same answer, and hold nothing."`
	Meta           object     `json:"meta,omitempty" placeholder:"JSON" help:"A JSON object that is kept with it."`
}

// heldItem is a feature with its units, and what they cost the provider.
type heldItem struct{ api.ReservedItem }

// UnmarshalText reads a word such as tokens=1200@0.02.
func (i *heldItem) UnmarshalText(text []byte) error {
	err := readItem(string(text), &i.ReservedItem)
	if err == nil && i.FeatureKey == "" {
		err = fmt.Errorf("%q is not a feature with units, such as tokens=1200", text)
	}
	return err
}

// usedItem is one that may leave its feature to the reservation.
type usedItem struct{ api.ReservedItem }

// UnmarshalText reads a word such as 1200, or tokens=1200@0.02.
func (i *usedItem) UnmarshalText(text []byte) error {
	return readItem(string(text), &i.ReservedItem)
}

func readItem(word string, i *api.ReservedItem) error {
	units := word
	if at := strings.LastIndexByte(word, '='); at >= 0 {
		i.FeatureKey, units = word[:at], word[at+1:]
	}
	units, cost, costs := strings.Cut(units, "@")
	if units == "" || costs && cost == "" {
		return fmt.Errorf("%q is not a number of units, such as 1200 or tokens=1200@0.02", word)
	}
	i.UsageUnits, i.CostAmount = json.Number(units), json.Number(cost)
	return errors.Join(number(units).Validate(), number(cost).Validate())
}

// object is a JSON object as it was typed.
type object string

// Validate refuses what is none.
func (o object) Validate() error {
	if o != "" && (!json.Valid([]byte(o)) || !strings.HasPrefix(strings.TrimSpace(string(o)), "{")) {
		return fmt.Errorf(`%s is not a JSON object such as {"model": "large"}`, string(o))
	}
	return nil
}

// MarshalJSON writes it as it is.
func (o object) MarshalJSON() ([]byte, error) { return []byte(o), nil }

// typedTime is a time as it was typed.
type typedTime string

// Validate refuses what is none.
func (t typedTime) Validate() error {
	if _, err := time.Parse(time.RFC3339, string(t)); t != "" && err != nil {
		return fmt.Errorf("%s is not a time such as 2026-03-01T00:00:00Z", string(t))
	}
	return nil
}

type reservationsSettle struct {
	reservationFlags `embed:""`
	Items            []usedItem `arg:"" json:"items" sep:"none" placeholder:"UNITS" help:"How many units were used in all: 1200 of a reservation of one feature, else tokens=1200; with @0.02 what the provider takes for those that were not settled before."`
	Part             open       `json:"final,omitempty" help:"Keep the rest held: more is to come."`
	EventKey         string     `json:"eventIdempotencyKey,omitempty" placeholder:"KEY" help:"The usage event's idempotency key. Default: one of the reservation's own."`
	At               typedTime  `json:"occurredAt,omitempty" placeholder:"TIME" help:"When it occurred, RFC 3339. Default: now, by the environment's clock."`
	Meta             object     `json:"meta,omitempty" placeholder:"JSON" help:"A JSON object that is kept with the event."`
}

// Validate refuses units without a feature next to others.
func (c *reservationsSettle) Validate() error {
	for _, i := range c.Items {
		if i.FeatureKey == "" && len(c.Items) > 1 {
			return fmt.Errorf("%s of which feature? Write tokens=%s", i.UsageUnits, i.UsageUnits)
		}
	}
	return nil
}

// complete puts the units of the only feature where the client API takes them without its key.
func (c *reservationsSettle) complete(body map[string]any) {
	if i := &c.Items[0]; i.FeatureKey == "" {
		delete(body, "items")
		body["usageUnits"] = i.UsageUnits
		if i.CostAmount != "" {
			body["costAmount"] = i.CostAmount
		}
	}
}

// open is a flag that leaves a reservation open.
type open bool

// MarshalJSON writes whether it is the last settlement.
func (o open) MarshalJSON() ([]byte, error) { return strconv.AppendBool(nil, !bool(o)), nil }

type reservationsExtend struct {
	reservationFlags `embed:""`
	Units            number `json:"usageUnits,omitempty" help:"The total to hold."`
	TTL              int    `name:"ttl" json:"ttlSeconds,omitempty" placeholder:"SECONDS" help:"How long it lasts from now on."`
}

type reservations struct{ api.ReservationPage }

func (l *reservations) print(out io.Writer) error {
	t := NewTable(out, "ID", "KEY", "STATE", "FEATURE", "GRANTED", "SETTLED", "HELD", "EXPIRES")
	for i := range l.Reservations {
		r := &l.Reservations[i]
		for j := range r.Items {
			item := &r.Items[j]
			t.Row(r.ID, r.ReservationKey, r.State, item.FeatureKey, quantity(item.GrantedUnits),
				quantity(item.SettledUnits), quantity(item.HeldUnits), moment(r.ExpiresAt))
		}
	}
	return older(out, t, l.NextCursor)
}

type reservation struct{ api.Reservation }

func (r *reservation) print(out io.Writer) error {
	t := NewTable(out)
	t.Row("Reservation", either(r.ID, "none: a dry run"))
	t.Row("Key", r.ReservationKey)
	t.Row("Customer", r.CustomerReferenceID)
	if r.Budget != "" {
		t.Row("Budget", r.Budget)
	}
	t.Row("State", r.State)
	t.Row("Expires", moment(r.ExpiresAt)+", in "+
		(time.Duration(r.RemainingSeconds)*time.Second).String())
	for i := range r.Items {
		item := &r.Items[i]
		t.Row(item.FeatureKey, "granted "+quantity(item.GrantedUnits)+", settled "+
			quantity(item.SettledUnits)+", held "+quantity(item.HeldUnits))
	}
	return t.End()
}
