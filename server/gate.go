package server

import "sync/atomic"

// Gate bounds what the requests under way on a listener hold together, so that ten times as many
// clients as a node can serve cost the others neither its memory nor their patience: what is beyond
// is refused at once, with Retry-After, and does not wait behind the rest. Safe for concurrent use.
type Gate struct {
	mostRequests, mostBytes int64
	requests, bytes         atomic.Int64
}

// Bounds of a node's listener: how many requests may be carried out at a time, and how many bytes
// their bodies may have together. A request that is still arriving holds no place, only its bytes.
const (
	DefaultGateRequests = 4_096
	DefaultGateBytes    = 256 << 20
)

// freeBody is the size of a body that is not counted: so much every connection may hold.
const freeBody = 4 << 10

// NewGate makes a gate for so many requests and bytes of bodies at a time.
func NewGate(requests int, bytes int64) *Gate {
	return &Gate{mostRequests: int64(requests), mostBytes: bytes}
}

// Load is how many requests are being carried out, and how many bytes their bodies have.
func (g *Gate) Load() (requests, bytes int64) { return g.requests.Load(), g.bytes.Load() }

// Most is how many requests may be carried out at a time, and how many bytes their bodies may have.
func (g *Gate) Most() (requests, bytes int64) { return g.mostRequests, g.mostBytes }

// enter takes a place for a request; leave gives it back.
func (g *Gate) enter() bool {
	if g == nil {
		return true
	}
	if g.requests.Add(1) > g.mostRequests {
		g.requests.Add(-1)
		return false
	}
	return true
}

func (g *Gate) leave() {
	if g != nil {
		g.requests.Add(-1)
	}
}

// reserve takes room for n more bytes; free gives room back.
func (g *Gate) reserve(n int64) bool {
	if g == nil {
		return true
	}
	if g.bytes.Add(n) > g.mostBytes {
		g.bytes.Add(-n)
		return false
	}
	return true
}

func (g *Gate) free(n int64) {
	if g != nil {
		g.bytes.Add(-n)
	}
}

// faultBusy is a request beyond the gate.
var faultBusy = Fault{
	Status: 503, Code: "overloaded", Message: "The service is overloaded",
	Detail:     "Nothing was changed. Repeat the request with the same key after Retry-After seconds.",
	RetryAfter: 1,
}

// hold makes room for a body of n bytes in the gate, whatever the exchange holds of it already.
func (x *Exchange) hold(n int) bool {
	more := int64(n) - x.held
	if n <= freeBody || more <= 0 {
		return true
	}
	if !x.table.config.Gate.reserve(more) {
		return false
	}
	x.held += more
	return true
}

// release gives back what the exchange holds of the gate.
func (x *Exchange) release() {
	if x.held > 0 {
		x.table.config.Gate.free(x.held)
		x.held = 0
	}
	if x.entered {
		x.table.config.Gate.leave()
		x.entered = false
	}
}
