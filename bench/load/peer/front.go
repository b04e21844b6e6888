// Package peer runs what people use in place of Tollgate, each behind the same thin HTTP front
// that takes Tollgate's requests and answers Tollgate's bytes: a durable, deduplicated count, and a
// read of it. The front is a process of its own, as a service in front of a database is.
package peer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"tollgate/bench/load"
)

// Event is what a front reads of a usage event.
type Event struct {
	Key, Customer string
	Units         int64
}

// Store is where a front counts.
type Store interface {
	// Create begins a customer's count at zero.
	Create(ctx context.Context, customer string) error
	// Add counts the events, each key once, and returns when they are durable. It notes in fresh
	// which of them were counted; the others are repeats.
	Add(ctx context.Context, events []Event, fresh []bool) error
	// Spend is Add for one event of a customer with a hard limit: it counts the event where the
	// count stays within the limit.
	Spend(ctx context.Context, event Event, limit int64) (Outcome, error)
	// Read returns a customer's count.
	Read(ctx context.Context, customer string) (int64, error)
	// Syncs is how often each server has made something durable so far, by server.
	Syncs(ctx context.Context) (map[string]uint64, error)
	Close() error
}

// Outcome is what became of an event.
type Outcome int64

// Outcomes. The numbers are what the script of Redis returns.
const (
	OutcomeRepeated Outcome = iota
	OutcomeCounted
	OutcomeRefused
)

// ErrNoLimits is what Spend says of a store that cannot keep limits.
var ErrNoLimits = errors.New("keeps no limits: hard-limit cannot be measured on it")

// planLimits is what fronts know of plans with a hard limit: those of the demo catalog. They keep
// in memory who has which, which favours the peers.
var planLimits = map[string]int64{"starter": 100}

// Front says what a front serves. It is sent to the process as JSON.
type Front struct {
	// Store is what begins one of Names, or for none "bare" or "epoll"; "floor" is the leader of
	// three nodes, "floor-follower" another one.
	Store string
	// Servers are addresses of the store's servers.
	Servers []string
	// Depth is how many events of a batch go into a pipeline at a time, where the store has one.
	Depth int
	// Folder is where the store keeps files, where the front does that itself.
	Folder  string
	Answers load.Answers
	// KeyHash is the SHA-256 of the key that clients of the floor have, and Pair what its nodes know
	// each other by.
	KeyHash []byte
	Pair    Pair
}

// requestTimeout bounds what a store may take for one request.
const requestTimeout = 10 * time.Second

// Serve serves the Front that it reads from in on a port of its own on 127.0.0.1; it writes the
// address to out and returns when in ends.
func Serve(in io.Reader, out io.Writer) (err error) {
	var front Front
	if err = json.NewDecoder(in).Decode(&front); err != nil {
		return fmt.Errorf("front: %w", err)
	}
	switch front.Store {
	case "epoll":
		return front.serveEpoll(in, out)
	case "floor":
		return front.serveFloorLeader(in, out)
	case "floor-follower":
		return front.followFloor(in, out)
	}
	handler := front.bare
	if front.Store != "bare" {
		store, openErr := front.open()
		if openErr != nil {
			return fmt.Errorf("front: %s: %w", front.Store, openErr)
		}
		defer func() { err = errors.Join(err, store.Close()) }()
		handler = newHandler(&front, store).handle
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("front: %w", err)
	}
	server := &fasthttp.Server{
		NoDefaultServerHeader: true, CloseOnShutdown: true, Handler: handler,
		MaxRequestBodySize: 64 << 20,
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	if _, err = fmt.Fprintln(out, ln.Addr()); err == nil {
		_, err = io.Copy(io.Discard, in)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	stopped := server.ShutdownWithContext(ctx)
	if errors.Is(stopped, context.DeadlineExceeded) {
		return err // the other end is gone, and this process ends with it
	}
	return errors.Join(err, stopped, <-served)
}

func (f *Front) open() (Store, error) {
	switch f.Store {
	case "redis":
		return openRedis(f.Servers[0], f.Depth)
	case "postgres":
		return openPostgres(f.Servers[0])
	case "etcd":
		return openEtcd(f.Servers)
	case "fdatasync":
		return openFile(f.Folder)
	}
	return nil, fmt.Errorf("no store %q", f.Store)
}

const requestID = "req_0123456789abcdef01234567"

// answer writes what all answers have in common.
func answer(ctx *fasthttp.RequestCtx, status int, body []byte) {
	ctx.Response.SetStatusCode(status)
	ctx.Response.Header.SetContentType("application/json")
	ctx.Response.Header.Set("X-Request-Id", requestID)
	ctx.Response.SetBody(body)
}

var (
	batchPath  = []byte("/api/v1/client/events/batch")
	eventPath  = []byte("/api/v1/client/events")
	checkPath  = []byte("/api/v1/client/entitlements/")
	createPath = []byte("/api/v1/client/customers")
	subscribe  = []byte("/api/v1/client/subscriptions")
	syncsPath  = []byte("/syncs")

	simulatePath = []byte("/api/v1/client/entitlements")
)

// bare answers without reading more than the path: the limit of what fasthttp allows.
func (f *Front) bare(ctx *fasthttp.RequestCtx) {
	a := f.blank(ctx.Path())
	answer(ctx, a.Status, a.Body)
}

func (f *Front) blank(path []byte) *load.Answer {
	switch {
	case bytes.Equal(path, simulatePath):
		return &f.Answers.Simulate
	case bytes.Equal(path, eventPath):
		return &f.Answers.Event
	case bytes.Equal(path, batchPath):
		return &f.Answers.Batch
	}
	return &f.Answers.Check
}

// handler answers requests from a store.
type handler struct {
	name            string // of the store
	store           Store
	answers         load.Answers
	check, simulate [][]byte // the answers to a check, cut where the count stands
	limits          sync.Map // of customers' hard limits: string to int64
}

var usedField = []byte(`"used":`)

func newHandler(f *Front, store Store) *handler {
	return &handler{
		name: f.Store, store: store, answers: f.Answers,
		check: aroundCounts(f.Answers.Check.Body), simulate: aroundCounts(f.Answers.Simulate.Body),
	}
}

// aroundCounts cuts an answer where the count stands.
func aroundCounts(body []byte) (parts [][]byte) {
	for rest := body; ; {
		before, after, found := bytes.Cut(rest, usedField)
		if !found {
			return append(parts, rest)
		}
		parts = append(parts, append(bytes.Clone(before), usedField...))
		rest = bytes.TrimLeft(after, "0123456789")
	}
}

func (h *handler) handle(request *fasthttp.RequestCtx) {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	var err error
	switch path := request.Path(); {
	case bytes.HasPrefix(path, checkPath):
		customer, _, _ := bytes.Cut(path[len(checkPath):], []byte("/"))
		err = h.read(ctx, request, string(customer), h.check)
	case bytes.Equal(path, simulatePath):
		customer, _ := field(request.PostBody(), []byte(`"customerReferenceId":"`))
		err = h.read(ctx, request, string(customer), h.simulate)
	case bytes.Equal(path, eventPath):
		err = h.record(ctx, request)
	case bytes.Equal(path, batchPath):
		err = h.batch(ctx, request)
	case bytes.Equal(path, createPath):
		name, _ := field(request.PostBody(), []byte(`"externalClientCustomerId":"`))
		if err = h.store.Create(ctx, string(name)); err == nil {
			answer(request, 201, h.answers.Event.Body)
		}
	case bytes.Equal(path, subscribe):
		plan, rest := field(request.PostBody(), []byte(`"planId":"`))
		customer, _ := field(rest, []byte(`"customerReferenceId":"`))
		if limit, limited := planLimits[string(plan)]; limited {
			h.limits.Store(string(customer), limit)
		}
		answer(request, 201, h.answers.Event.Body)
	case bytes.Equal(path, syncsPath):
		var text []byte
		var syncs map[string]uint64
		if syncs, err = h.store.Syncs(ctx); err == nil {
			if text, err = json.Marshal(syncs); err == nil {
				answer(request, 200, text)
			}
		}
	default:
		answer(request, 404, []byte(`{"success":false}`))
	}
	if err != nil {
		answer(request, 500, fmt.Appendf(nil, `{"success":false,"error":{"message":%q}}`,
			fmt.Sprintf("%s: %v", h.name, err)))
	}
}

// read answers a check or a simulation, of which parts is the answer around the counts.
func (h *handler) read(ctx context.Context, request *fasthttp.RequestCtx, customer string,
	parts [][]byte,
) error {
	count, err := h.store.Read(ctx, customer)
	if err != nil {
		return err
	}
	answer(request, 200, nil)
	for i, part := range parts {
		if i > 0 {
			request.Response.AppendBody(strconv.AppendInt(nil, count, 10))
		}
		request.Response.AppendBody(part)
	}
	return nil
}

func (h *handler) record(ctx context.Context, request *fasthttp.RequestCtx) error {
	event, _, err := parse(request.PostBody())
	if err != nil {
		return err
	}
	outcome := OutcomeRepeated
	if limit, limited := h.limits.Load(event.Customer); limited {
		outcome, err = h.store.Spend(ctx, event, limit.(int64))
	} else {
		var fresh [1]bool
		if err = h.store.Add(ctx, []Event{event}, fresh[:]); fresh[0] {
			outcome = OutcomeCounted
		}
	}
	if err != nil {
		return err
	}
	a := &h.answers.Event
	switch outcome {
	case OutcomeRepeated:
		a = &h.answers.Duplicate
	case OutcomeRefused:
		a = &h.answers.Limit
	}
	answer(request, a.Status, a.Body)
	return nil
}

func (h *handler) batch(ctx context.Context, request *fasthttp.RequestCtx) error {
	body := request.PostBody()
	var events []Event
	for len(body) > 2 {
		event, rest, err := parse(body)
		if err != nil {
			return err
		}
		events, body = append(events, event), rest
	}
	fresh := make([]bool, len(events))
	if err := h.store.Add(ctx, events, fresh); err != nil {
		return err
	}
	answer(request, 200, batchAnswer(fresh))
	return nil
}

// parse reads the three fields of the next event that count, and returns what follows. It does as
// little as a front can, which favours the peers.
func parse(body []byte) (e Event, rest []byte, err error) {
	key, rest := field(body, []byte(`"eventIdempotencyKey":"`))
	customer, rest := field(rest, []byte(`"customerReferenceId":"`))
	_, rest, found := bytes.Cut(rest, []byte(`"usageUnits":`))
	digits := len(rest) - len(bytes.TrimLeft(rest, "0123456789"))
	units, err := strconv.ParseInt(string(rest[:digits]), 10, 64)
	if err != nil || !found || len(key) == 0 || len(customer) == 0 {
		return e, nil, fmt.Errorf("no usage event: %.100q", body)
	}
	rest = rest[digits:]
	if len(rest) > 0 {
		rest = rest[1:] // the closing brace
	}
	return Event{string(key), string(customer), units}, rest, nil
}

// field returns a string's value, and what follows it.
func field(text, name []byte) (value, rest []byte) {
	_, after, found := bytes.Cut(text, name)
	if !found {
		return nil, nil
	}
	value, rest, _ = bytes.Cut(after, []byte(`"`))
	return value, rest
}

// batchAnswer is the body of the answer to a batch, of whose events those are counted that are
// fresh.
func batchAnswer(fresh []bool) []byte {
	accepted := 0
	text := append(make([]byte, 0, 32*len(fresh)+128), `{"success":true,"data":{"results":[`...)
	for i, counted := range fresh {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(append(text, `{"index":`...), int64(i), 10)
		if counted {
			accepted++
			text = append(text, `,"status":201}`...)
			continue
		}
		text = append(text, `,"status":409,"message":"This idempotency key was already processed"}`...)
	}
	return fmt.Appendf(text, `],"accepted":%d,"duplicates":%d,"rejected":0}}`,
		accepted, len(fresh)-accepted)
}
