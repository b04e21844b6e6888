package server

import (
	"runtime"
	"time"

	"tollgate/engine/fair"
)

// Gate bounds what the requests under way on a listener hold together, so that ten times as many
// clients as a node can serve cost the others neither its memory nor their patience: what is beyond
// is refused at once, with Retry-After, and does not wait behind the rest. An account may hold as
// much as is free, so that one that floods finds its own bound before the others find the gate's.
// Safe for concurrent use.
type Gate struct {
	requests, bytes, items *fair.Counter
	turns                  *turns
	weight                 func(fair.Flow) int
}

const (
	// itemBytes is what an event of a batch and its part of the answer take at most as a rule: by it,
	// the room for bodies also bounds the items that are under way. A body of 64 KiB may hold 10,000
	// broken items, whose answer is a megabyte. minItems lets any one batch through.
	itemBytes = 512
	minItems  = 20_000
	// freeBody is the size of a body that is not counted: so much every connection may hold.
	freeBody = 4 << 10
	// turnBody is the size of a body from which on a request waits for its turn: some 50 events. Were
	// it larger, 300 connections with batches just below it would keep the cores from all others.
	turnBody = 8 << 10
	// turnsPerCore and minTurns say how many turns there are at a time. It is more than the cores
	// can work on, since most of the time they wait for the log. A body takes one for each turnUnit,
	// some 1,300 events: a flood of batches of 5,000 has as much under way as one of 1,000.
	turnsPerCore = 4
	minTurns     = 8
	turnUnit     = 192 << 10
	// turnPatience is how long one may wait for its turn.
	turnPatience = 2 * time.Second
)

// NewGate makes a gate for so many requests and bytes of bodies at a time. A flow of weight 2 may
// hold twice as much of them as one of weight 1; nil means that all weigh 1. A request that still
// arrives holds no place, only its bytes.
func NewGate(requests int, bytes int64, weight func(fair.Flow) int) *Gate {
	if weight == nil {
		weight = func(fair.Flow) int { return 1 }
	}
	return &Gate{
		weight:   weight,
		requests: fair.NewCounter(int64(requests)), bytes: fair.NewCounter(bytes),
		items: fair.NewCounter(max(minItems, bytes/itemBytes)),
		turns: newTurns(max(minTurns, turnsPerCore*runtime.GOMAXPROCS(0))),
	}
}

// Load is how many requests are being carried out, and how many bytes their bodies have.
func (g *Gate) Load() (requests, bytes int64) { return g.requests.Used(), g.bytes.Used() }

// Max is how many requests may be carried out at a time, and how many bytes their bodies may have.
func (g *Gate) Max() (requests, bytes int64) { return g.requests.Max(), g.bytes.Max() }

// faultBusy is a request beyond the gate.
var faultBusy = NewFault(503, "overloaded", "The service is overloaded").With(
	"Nothing was changed. Repeat the request with the same key after Retry-After seconds.").Retry(1)

// faultShare is a request of an account that holds its share of the gate.
var faultShare = NewFault(429, "share_full", "The account has too many requests under way").With(
	"Nothing was changed. The service is busy, and other accounts need their share of it. Repeat " +
		"the request with the same key after Retry-After seconds; send fewer at a time.").Retry(1)

var (
	// AnonymousFlow is the flow of everyone whom no key and no session names.
	AnonymousFlow = fair.Special(0)
	// SignInFlow is the flow of everyone who signs in or out.
	SignInFlow = fair.Special(1)
)

// Flow is whose request it is: its caller's; 0 is an operator's.
func (x *Exchange) Flow() fair.Flow {
	if x.Caller != nil {
		if f := x.Caller.Flow(); f != 0 {
			return f
		}
	}
	if x.Route != nil && x.Route.Access == AccessOpen {
		return AnonymousFlow
	}
	return 0
}

// refusal is why there was no room for a flow; nil when there was.
func refusal(f fair.Flow, room fair.Room) *Fault {
	switch {
	case room == fair.RoomTaken:
		return nil
	case room == fair.RoomFlow && f != AnonymousFlow:
		return faultShare
	}
	return faultBusy
}

// enter takes a place for a request that is about to be carried out; one with a large body waits
// for its turn first.
func (x *Exchange) enter() *Fault {
	g := x.table.config.Gate
	if g == nil {
		return nil
	}
	x.flow = x.Flow()
	if fault := refusal(x.flow, g.requests.Take(x.flow, g.weight(x.flow), 1)); fault != nil {
		return fault
	}
	x.entered = true
	if len(x.Body) <= turnBody {
		return nil
	}
	return x.awaitTurn(len(x.Body))
}

// awaitTurn waits for the turn of a request whose body has so many bytes; it waits once.
func (x *Exchange) awaitTurn(size int) *Fault {
	g := x.table.config.Gate
	if g == nil || x.turns > 0 {
		return nil
	}
	x.flow = x.Flow()
	// Half of all at most: no body keeps those of other accounts waiting.
	turns := min((size+turnUnit-1)/turnUnit, max(1, g.turns.places.Max()/2))
	ok, after := g.turns.await(x.flow, g.weight(x.flow), turns, turnPatience)
	if !ok {
		return faultShare.Retry(int((after + time.Second - 1) / time.Second))
	}
	x.turns = turns
	return nil
}

// hold makes room for a body of n bytes in the gate, whatever the exchange holds of it already.
func (x *Exchange) hold(n int) *Fault {
	g, more := x.table.config.Gate, int64(n)-x.held
	if g == nil || n <= freeBody || more <= 0 {
		return nil
	}
	x.flow = x.Flow()
	if fault := refusal(x.flow, g.bytes.Take(x.flow, g.weight(x.flow), more)); fault != nil {
		return fault
	}
	x.held += more
	return nil
}

// HoldItems makes room in the gate for n items of a batch, until the exchange ends.
func (x *Exchange) HoldItems(n int) *Fault {
	g := x.table.config.Gate
	if g == nil || n == 0 {
		return nil
	}
	if fault := refusal(x.flow, g.items.Take(x.flow, g.weight(x.flow), int64(n))); fault != nil {
		return fault
	}
	x.items += int64(n)
	return nil
}

// release gives back what the exchange holds of the gate.
func (x *Exchange) release() {
	g := x.table.config.Gate
	if x.items > 0 {
		g.items.Give(x.flow, x.items)
		x.items = 0
	}
	if x.held > 0 {
		g.bytes.Give(x.flow, x.held)
		x.held = 0
	}
	if x.turns > 0 {
		g.turns.end(x.flow, x.turns)
		x.turns = 0
	}
	if x.entered {
		g.requests.Give(x.flow, 1)
		x.entered = false
	}
}
