package client

import (
	"runtime"
	"strconv"
	"sync"
	"time"

	"tollgate/engine/billing"
	"tollgate/server"
	"tollgate/server/audit"
	"tollgate/server/scan"
)

const (
	// checkBatchBytes and checkBatchItems bound POST /entitlements/batch.
	checkBatchBytes = 2 << 20
	checkBatchItems = 1_000
)

var (
	faultCheckBatch = server.FaultJSON.With("The body must be a JSON array of entitlement requests.")
	faultCheckItems = server.FaultSize.With(
		"At most " + strconv.Itoa(checkBatchItems) + " entitlements are evaluated in one request.")
)

// checkBatch is the memory of entitlement checks that are decided together.
type checkBatch struct {
	scanner   scan.Scanner
	items     []*checking
	queries   []billing.CheckQuery
	decisions []billing.Decision
}

var checkBatches = sync.Pool{New: func() any { return new(checkBatch) }}

func (b *checkBatch) release() {
	for _, c := range b.items {
		c.release()
	}
	clear(b.items)
	clear(b.queries)
	b.items, b.queries = b.items[:0], b.queries[:0]
	b.scanner.Reset(nil)
	checkBatches.Put(b)
}

// evaluateBatch is POST /entitlements/batch. Each decision sees every event acknowledged before the
// batch began. Decisions are made one by one, so a later decision may see an event that an earlier
// one did not. One request that is wrong refuses the batch.
func (a *API) evaluateBatch(x *server.Exchange) *server.Fault {
	b := checkBatches.Get().(*checkBatch)
	defer b.release()
	stale, fault := consistency(x)
	if fault == nil {
		fault = a.limits.ItemsLeft(x, principal(x).KeyID)
	}
	if fault == nil {
		fault = b.read(principal(x), x.Body)
	}
	if fault == nil {
		fault = x.HoldItems(len(b.items))
	}
	for _, c := range b.items {
		if fault == nil && !a.own(x, c.query.Customer) {
			fault = server.FaultScope
		}
	}
	if fault == nil {
		fault = a.limits.TakeItems(x, principal(x).KeyID, len(b.items))
	}
	deadline := a.readDeadline()
	if fault == nil && !a.decideBatch(b, stale, deadline) {
		fault = server.FaultConsistency
	}
	if fault == nil {
		fault = a.auditBatch(b, stale, deadline)
	}
	if fault != nil {
		return fault
	}
	if stale {
		server.NoteStaleness(x, a.reader)
	}
	data := x.Begin()
	data.Open('[')
	for _, c := range b.items {
		c.answer(data)
	}
	data.Close(']')
	return x.End(200)
}

// read reads all items.
func (b *checkBatch) read(p *billing.Principal, body []byte) *server.Fault {
	s := &b.scanner
	s.Reset(body)
	s.Raise(1)
	if s.Peek() != scan.KindArray || !s.Array() {
		return faultCheckBatch
	}
	for first := true; s.Item(first); first = false {
		if len(b.items) == checkBatchItems {
			return faultCheckItems
		}
		s.Peek()
		start := s.Pos()
		if !s.Skip() {
			return faultAt(len(b.items), server.FaultJSON.With(s.Err().Error()))
		}
		c := checkings.Get().(*checking)
		b.items = append(b.items, c)
		c.begin(p.Env, body[start:s.Pos()])
		c.query.KeyBudget = p.Budget
		c.read()
		if fault := c.form.Leave(); fault != nil {
			return faultAt(len(b.items)-1, fault)
		}
		b.queries = append(b.queries, c.query)
	}
	if !s.End() {
		return server.FaultJSON.With(s.Err().Error())
	}
	return nil
}

// faultAt is a fault of an item of an array.
func faultAt(index int, fault *server.Fault) *server.Fault {
	at := *fault
	item := "[" + strconv.Itoa(index) + "]"
	at.Detail = "Item " + item + ": " + fault.Detail
	at.Fields = make([]server.FieldError, len(fault.Fields))
	for i, f := range fault.Fields {
		if f.Field == "body" {
			f.Field = item
		} else {
			f.Field = item + "." + f.Field
		}
		at.Fields[i] = f
	}
	return &at
}

// decideBatch fills in the decisions at the consistency asked for; false when no leader vouched in
// time. A node that lags waits for the log: asking the leader for each decision would take longer.
func (a *API) decideBatch(b *checkBatch, stale bool, deadline time.Time) bool {
	b.decisions = append(b.decisions[:0], make([]billing.Decision, len(b.queries))...)
	check := func() *server.Fault {
		now := a.machine.Clock(a.nowMS())
		for i := range b.queries {
			b.queries[i].Now = now
		}
		a.machine.CheckTogether(b.queries, b.decisions)
		return nil
	}
	if stale {
		check()
	} else if _, ok := server.ReadFresh(a.reader, deadline, check); !ok {
		return false
	}
	for i, c := range b.items {
		c.decision = b.decisions[i]
	}
	return true
}

// auditBatch hands the audit events over, and waits for each block where blocks must be committed.
// Where it fails midway, checks are recorded that were not answered, as with a single one.
func (a *API) auditBatch(b *checkBatch, stale bool, deadline time.Time) *server.Fault {
	var last *audit.Verdict
	for i, c := range b.items {
		if i%stride == stride-1 {
			runtime.Gosched()
		}
		v, fault := a.audits.Add(c.event(), deadline)
		if fault == nil && last != nil && v != last {
			fault = last.Await(deadline, stale)
		}
		if fault != nil {
			return fault
		}
		last = v
	}
	if last == nil {
		return nil
	}
	return last.Await(deadline, stale)
}
