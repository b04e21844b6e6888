package client

import (
	"cmp"
	"encoding/hex"
	"slices"

	"github.com/cespare/xxhash/v2"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/wire"
	"tollgate/server"
	"tollgate/server/billinglog"
	"tollgate/server/billingview"
	"tollgate/server/form"
)

// reservationRoutes are the rows about units that are held before they are used.
func (a *API) reservationRoutes() []server.Route {
	const one = "/reservations/{reservationId}"
	gives := func(status int, about string) func(*server.Route) {
		return server.Gives(status, about, server.RefTo("Reservation"))
	}
	states := server.EnumSchema(billingview.ReservationStates...)
	return []server.Route{
		row("POST", "/reservations", "reserve",
			"Hold units of one to eight features: all or none, once per reservationKey",
			server.AccessFull, a.reserve, server.Asks(server.RequestKey),
			server.Takes(server.RefTo("ReservationRequest")),
			gives(201, "Held; the same key and body again: the first answer"),
			gives(200, "What a dryRun would have held, or what its reservationKey holds")),
		row("GET", "/reservations", "listReservations",
			"The reservations of a customer, in a budget, or in a state, newest first", server.AccessRead,
			a.listReservations, reads,
			server.Asks(
				server.InQuery("customerReferenceId", text(1, maxID),
					"whose; it, customerId, budget or state is required"),
				server.InQuery("customerId", server.UUIDSchema, "whose, by the customer's id"),
				server.InQuery("budget", text(1, maxID), "those at this budget, or below it"),
				server.InQuery("state", states, "all when absent"),
				server.InQuery("limit", server.IntSchema(1, maxReservations), "100 when absent"),
				server.InQuery("cursor", text(1, 64), "nextCursor of the page before")),
			answers(server.Object(
				server.Must("reservations", server.ArrayOf(server.RefTo("Reservation"))),
				server.May("nextCursor", text(1, 64))))),
		row("GET", one, "getReservation", "A reservation in any state", server.AccessRead,
			byID(a.getReservation), reads, answers(server.RefTo("Reservation"))),
		row("POST", one+"/settle", "settleReservation",
			"Record what was used and, unless final is false, release the rest", server.AccessFull,
			byID(a.settleReservation), server.Asks(server.RequestKey),
			server.Takes(server.RefTo("ReservationSettlement")),
			gives(200, "Settled, or it was before")),
		row("POST", one+"/extend", "extendReservation", "Hold more, or for longer",
			server.AccessFull, byID(a.extendReservation), server.Asks(server.RequestKey),
			server.Takes(server.RefTo("ReservationExtension")), gives(200, "Extended")),
		row("POST", one+"/release", "releaseReservation", "Release what is held", server.AccessFull,
			byID(a.releaseReservation), server.Asks(server.RequestKey),
			gives(200, "Released, or it was before")),
	}
}

const (
	// maxReservations is the largest page, which is also the usual one.
	maxReservations = 100
	maxTTL          = billing.MaxReservationMS / 1000
	defaultTTL      = 600
)

func reservationSchemas(to map[string]*server.Schema) {
	to["ReservationRequest"] = server.RequestSchema[reservationRequest]()
	to["ReservationSettlement"] = server.RequestSchema[reservationSettlement]()
	to["ReservationExtension"] = server.RequestSchema[reservationExtension]()
	to["ReservationItem"] = server.AnswerSchema[billing.ReservationItemView]()
	to["Reservation"] = server.AnswerSchema[billing.ReservationView]()
}

// reservedItem is a feature of a reservation's request, by key or by id, with the units to hold, or
// to be settled in all.
//
//schema:described client ReservedItem
type reservedItem struct {
	FeatureKey string          `json:"featureKey,omitzero" rule:"min=1,max=128"`
	FeatureID  [16]byte        `json:"featureId,omitzero"`
	Units      decimal.Decimal `json:"usageUnits,omitzero"`
	Cost       decimal.Decimal `json:"costAmount,omitzero"`
	HasCost    bool
}

// reservationRequest asks for a reservation: of Items, or of the one that is embedded.
//
//schema:described client ReservationRequest
type reservationRequest struct {
	Key        string         `json:"reservationKey" rule:"required,min=1,max=255"`
	Customer   string         `json:"customerReferenceId" rule:"min=1,max=128"`
	CustomerID [16]byte       `json:"customerId"`
	Items      []reservedItem `json:"items"`
	Seconds    uint64         `json:"ttlSeconds" rule:"min=1,max=86400"`
	OnShortage uint8          `json:"onShortage" rule:"oneof=refuse|partial"`
	Overrun    uint8          `json:"overrun" rule:"oneof=record|refuse"`
	OnExpiry   uint8          `json:"onExpiry" rule:"oneof=release|settle"`
	Budget     string         `json:"budget" rule:"min=1,max=128"`
	DryRun     bool           `json:"dryRun"`
	Meta       []byte         `json:"meta" as:"object"`
	reservedItem
}

// reservationSettlement says what was used of a reservation in all: of Items, or of the only one.
//
//schema:described client ReservationSettlement
type reservationSettlement struct {
	Items []reservedItem `json:"items"`
	// Final is false for a part, after which the rest stays held; nil is true.
	Final      *bool  `json:"final"`
	EventKey   string `json:"eventIdempotencyKey" rule:"min=1,max=255"`
	OccurredAt int64  `json:"occurredAt" as:"time"`
	Meta       []byte `json:"meta" as:"object"`
	reservedItem
}

// reservationExtension is the hold that is wanted in all, and how long it is to live from now on.
//
//schema:described client ReservationExtension
type reservationExtension struct {
	Units   decimal.Decimal `json:"usageUnits"`
	Seconds uint64          `json:"ttlSeconds" rule:"min=1,max=86400"`
}

// Fields of a reservation's requests, by the bit that says one was seen.
const (
	fieldReservationKey = iota
	fieldReservationCustomer
	fieldReservationCustomerID
	fieldItems
	fieldTTL
	fieldShortage
	fieldOverrun
	fieldExpiry
	fieldDryRun
	fieldReservationMeta
	fieldItemKey
	fieldItemID
	fieldItemUnits
	fieldItemCost
	fieldFinal
	fieldEventKey
	fieldEventTime
	fieldReservationBudget
)

// field reads a field of an item; false where it is none.
func (i *reservedItem) field(f *form.Reader) bool {
	switch string(f.Name) {
	case "featureKey":
		f.Text(fieldItemKey, &i.FeatureKey, 1, maxID)
	case "featureId":
		f.UUID(fieldItemID, &i.FeatureID)
	case "usageUnits":
		f.Number(fieldItemUnits, &i.Units)
	case "costAmount":
		i.HasCost = f.Number(fieldItemCost, &i.Cost)
	default:
		return false
	}
	return true
}

// check judges an item; named means that it must name its feature, positive that it must not be 0.
func (i *reservedItem) check(f *form.Reader, named, positive bool) {
	f.Need(fieldItemUnits, "usageUnits")
	if named && !f.Given(fieldItemKey) && !f.Given(fieldItemID) {
		f.Need(fieldItemKey, "featureKey")
	}
	if !positive {
		f.NotNegative("usageUnits", i.Units)
	} else if f.Right(fieldItemUnits) && i.Units.Sign() <= 0 {
		f.Problem("usageUnits", form.NotPositive)
	}
	f.NotNegative("costAmount", i.Cost)
}

// readItems reads the items of a list.
func readItems(f *form.Reader, named, positive bool) (list []reservedItem) {
	f.Each(fieldItems, "items", billing.MaxReservationItems, func() {
		var i reservedItem
		for f.Next() {
			if !i.field(f) {
				f.Unknown()
			}
		}
		i.check(f, named, positive)
		list = append(list, i)
	})
	return list
}

// itemsOf are the items of a request: those of its list, or the one whose fields stand at the top.
// It notes what is wrong about them together.
func itemsOf(
	f *form.Reader, list []reservedItem, top *reservedItem, named, positive bool,
) []reservedItem {
	atTop := f.Given(fieldItemKey) || f.Given(fieldItemID) || f.Given(fieldItemUnits) ||
		f.Given(fieldItemCost)
	switch {
	case f.Given(fieldItems) && atTop:
		f.Note(server.FieldError{
			Field: "items", Code: server.FieldConflict,
			Message: "items and the fields of a single item are not taken together",
		})
	case f.Given(fieldItems):
		if f.Right(fieldItems) && len(list) == 0 {
			f.Problem("items", form.Empty)
		}
		return list
	default:
		top.check(f, named, positive)
	}
	return []reservedItem{*top}
}

var (
	shortages = []string{"refuse", "partial"}
	overruns  = []string{"record", "refuse"}
	expiries  = []string{"release", "settle"}
)

func readReservation(f *form.Reader, c *billing.Reserve) {
	var r reservationRequest
	for f.Next() {
		switch string(f.Name) {
		case "reservationKey":
			f.Text(fieldReservationKey, &r.Key, 1, maxKey)
		case "customerReferenceId":
			f.Text(fieldReservationCustomer, &r.Customer, 1, maxID)
		case "customerId":
			f.UUID(fieldReservationCustomerID, &r.CustomerID)
		case "items":
			r.Items = readItems(f, true, true)
		case "ttlSeconds":
			form.Uint(f, fieldTTL, &r.Seconds, 1, maxTTL)
		case "onShortage":
			form.Enum(f, fieldShortage, &r.OnShortage, shortages)
		case "overrun":
			form.Enum(f, fieldOverrun, &r.Overrun, overruns)
		case "onExpiry":
			form.Enum(f, fieldExpiry, &r.OnExpiry, expiries)
		case "budget":
			f.Text(fieldReservationBudget, &r.Budget, 1, maxID)
		case "dryRun":
			f.Bool(fieldDryRun, &r.DryRun)
		case "meta":
			f.Object(fieldReservationMeta, &r.Meta)
		default:
			if !r.field(f) {
				f.Unknown()
			}
		}
	}
	f.Need(fieldReservationKey, "reservationKey")
	if f.Given(fieldReservationCustomer) == f.Given(fieldReservationCustomerID) {
		code := server.FieldRequired
		if f.Given(fieldReservationCustomer) {
			code = server.FieldConflict
		}
		f.Note(server.FieldError{
			Field: "customerReferenceId", Code: code,
			Message: "exactly one of customerReferenceId and customerId is required",
		})
	}
	c.KeyText, c.Customer, c.CustomerID = r.Key, r.Customer, r.CustomerID
	c.Budget, c.DryRun, c.Meta = r.Budget, r.DryRun, append([]byte(nil), r.Meta...)
	for _, i := range itemsOf(f, r.Items, &r.reservedItem, true, true) {
		c.Items = append(c.Items, billing.ReserveItem(i))
	}
	if c.Partial = r.OnShortage == 1; c.Partial && len(c.Items) > 1 {
		f.Note(server.FieldError{
			Field: "onShortage", Code: server.FieldConflict,
			Message: "onShortage partial is for one item alone",
		})
	}
	c.TTLMS = int64(cmp.Or(r.Seconds, defaultTTL)) * 1000
	c.RefuseOverrun, c.SettleOnExpiry = r.Overrun == 1, r.OnExpiry == 1
}

// reserve is POST /reservations.
func (a *API) reserve(x *server.Exchange) *server.Fault {
	c := billing.Reserve{Env: principal(x).Env}
	if fault := form.Read(x.Body, &c, readReservation); fault != nil {
		return fault
	}
	c.Body = saidHash(&c)
	c.ID, c.Key = newID(), billing.ReservationKey(c.Env, []byte(c.KeyText))
	c.KeyBudget, c.Bindings = principal(x).Budget, principal(x).Bindings
	status := 201
	if c.DryRun {
		status = 200
	}
	return a.guarded(x, status, func(g *guard) (engine.Result, *server.Fault) {
		return g.propose(billing.KindReserve, wire.Encode(nil, &c)), nil
	})
}

// guarded answers with what a command made of a reservation, and keeps the answer under the
// request's Idempotency-Key, if it has one.
func (a *API) guarded(
	x *server.Exchange, status int, do func(*guard) (engine.Result, *server.Fault),
) *server.Fault {
	if _, fault := server.OnceKey(x); fault != nil {
		return fault
	}
	g := guard{a: &a.base, x: x}
	r, fault := do(&g)
	if fault != nil || billinglog.Replay(x, &g.first) {
		return fault
	}
	fault = a.answerReservation(x, status, r)
	if fault != nil || !keyed(x) || g.first.Unkept {
		return fault
	}
	var v billing.ReservationView
	if wire.Decode(r.Value, &v) != nil {
		return server.FaultInternal
	}
	return a.keep(x, a.machine.CustomerRow(principal(x).Env, []byte(v.Customer)))
}

// saidHash stands for what a request says but for what the engine compares: customer and features,
// which have an id and a key each. A dryRun asks for the same.
func saidHash(c *billing.Reserve) uint64 {
	said := *c
	said.Customer, said.CustomerID, said.DryRun = "", [16]byte{}, false
	said.Meta, said.Items = billinglog.Canonical(c.Meta), slices.Clone(c.Items)
	for i := range said.Items {
		said.Items[i].FeatureKey, said.Items[i].FeatureID = "", [16]byte{}
	}
	return xxhash.Sum64(wire.Encode(nil, &said))
}

// answerReservation answers with what a command made of a reservation, or why it did not.
func (a *API) answerReservation(x *server.Exchange, status int, r engine.Result) *server.Fault {
	if r.Outcome != engine.OutcomeDone {
		return billingview.ReservationFault(a.refusal(principal(x).Env, r), r,
			func(why billing.Reason) string { return reasonTexts[why].description })
	}
	var v billing.ReservationView
	if wire.Decode(r.Value, &v) != nil {
		return server.FaultInternal
	}
	return server.One(x, status, &v, billingview.WriteReservation)
}

func (a *API) getReservation(x *server.Exchange, id [16]byte) *server.Fault {
	return a.read(x, func() *server.Fault {
		v, found := a.machine.Reservation(principal(x).Env, id, a.machine.Clock(a.nowMS()))
		if !found {
			return server.FaultOf(engine.OutcomeReservationUnknown)
		}
		return server.One(x, 200, &v, billingview.WriteReservation)
	})
}

func (a *API) listReservations(x *server.Exchange) *server.Fault {
	var f form.Reader
	q := billing.ReservationQuery{
		Env: principal(x).Env, Customer: query(x.Ctx, "customerReferenceId"),
		Budget: query(x.Ctx, "budget"), Limit: maxReservations,
	}
	id := query(x.Ctx, "customerId")
	switch ok := false; {
	case id == "":
		if q.Customer == "" && q.Budget == "" && query(x.Ctx, "state") == "" {
			f.Problem("customerReferenceId", form.Required)
		}
	case q.Customer != "":
		f.Note(server.FieldError{
			Field: "customerId", Code: server.FieldConflict,
			Message: "customerReferenceId and customerId are not taken together",
		})
	default:
		if q.CustomerID, ok = server.ParseUUID([]byte(id)); !ok || q.CustomerID == [16]byte{} {
			f.Problem("customerId", form.NotUUID)
		}
	}
	queryLimit(x, &f, maxReservations, &q.Limit)
	if state := query(x.Ctx, "state"); state != "" {
		var ok bool
		if q.States, ok = billingview.ReservationState(state); !ok {
			f.Problem("state", form.NotAllowed(billingview.ReservationStates...))
		}
	}
	if cursor := query(x.Ctx, "cursor"); cursor != "" {
		id, err := hex.DecodeString(cursor)
		if err != nil || len(id) != len(q.After) {
			f.Problem("cursor", form.PassedCursor)
		} else {
			q.After = [16]byte(id)
		}
	}
	if fault := f.Fault(); fault != nil {
		return fault
	}
	return a.read(x, func() *server.Fault {
		q.Now = a.machine.Clock(a.nowMS())
		list, next, outcome := a.machine.Reservations(&q)
		switch outcome {
		case engine.OutcomeDone:
		case engine.OutcomeReservationUnknown:
			return form.PassedCursor.Fault("cursor")
		default:
			return server.FaultOf(outcome)
		}
		cursor := ""
		if next != ([16]byte{}) {
			cursor = hex.EncodeToString(next[:])
		}
		return server.Page(x, "reservations", list, billingview.WriteReservation, cursor)
	})
}

func readExtension(f *form.Reader, c *billing.ExtendReservation) {
	var r reservationExtension
	for f.Next() {
		switch string(f.Name) {
		case "usageUnits":
			f.Number(fieldItemUnits, &r.Units)
		case "ttlSeconds":
			form.Uint(f, fieldTTL, &r.Seconds, 1, maxTTL)
		default:
			f.Unknown()
		}
	}
	if f.Right(fieldItemUnits) && r.Units.Sign() <= 0 {
		f.Problem("usageUnits", form.NotPositive)
	}
	if !f.Given(fieldItemUnits) && !f.Given(fieldTTL) {
		f.Note(server.FieldError{
			Field: "usageUnits", Code: server.FieldRequired,
			Message: "usageUnits or ttlSeconds is required",
		})
	}
	c.Units, c.TTLMS = r.Units, int64(r.Seconds)*1000
}

// extendReservation is POST /reservations/{reservationId}/extend. Only this one of a reservation's
// requests takes effect again when it is repeated: an Idempotency-Key has it carried out once. The
// keys of the others only have another body refused.
func (a *API) extendReservation(x *server.Exchange, id [16]byte) *server.Fault {
	p := principal(x)
	c := billing.ExtendReservation{Env: p.Env, ID: id, KeyBudget: p.Budget, Bindings: p.Bindings}
	if fault := form.Read(x.Body, &c, readExtension); fault != nil {
		return fault
	}
	r, first, fault := a.once(x, billing.KindExtendReservation, &c)
	if fault != nil || billinglog.Replay(x, &first) {
		return fault
	}
	if r.Outcome != engine.OutcomeDone {
		return a.answerReservation(x, 200, r)
	}
	if keyed(x) {
		r.Value = first.Reply
	}
	if len(r.Value) == 0 { // an attempt, or a request, whose answer is not known has carried it out
		return a.getReservation(x, id)
	}
	var v billing.ReservationView
	if wire.Decode(r.Value, &v) != nil {
		return server.FaultInternal
	}
	if fault = server.One(x, 200, &v, billingview.WriteReservation); fault != nil || !keyed(x) {
		return fault
	}
	return a.keep(x, a.machine.CustomerRow(p.Env, []byte(v.Customer)))
}

// releaseReservation is POST /reservations/{reservationId}/release.
func (a *API) releaseReservation(x *server.Exchange, id [16]byte) *server.Fault {
	p := principal(x)
	c := billing.ReleaseReservation{
		Env: p.Env, ID: id, Actor: x.By(), KeyBudget: p.Budget, Bindings: p.Bindings,
	}
	return a.guarded(x, 200, func(g *guard) (engine.Result, *server.Fault) {
		return g.propose(billing.KindReleaseReservation, wire.Encode(nil, &c)), nil
	})
}
