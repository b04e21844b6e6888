package peer

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

const (
	// floorCollects is for how long audit events collect, as those of nodes do, and how often an idle
	// leader looks whether its lease has to be renewed.
	floorCollects = 20 * time.Millisecond
	// floorLease is for how long a leader may answer since a frame was sent that a majority has.
	floorLease = 200 * time.Millisecond
	// floorFrame is how much a frame has at most; all that wait must fit, or the leader ends.
	floorFrame = 6 << 20
)

// flight is a frame: what its callers wait for.
type flight struct {
	records []byte
	fresh   []bool // of its events
	done    chan struct{}
}

// floorLeader answers clients.
type floorLeader struct {
	front     *Front
	table     *floorTable
	log       *floorLog
	followers []net.Conn
	acks      chan uint64
	failed    chan error
	began     time.Time
	keys      map[string]bool // what the header Authorization may be: the harness has no key for it
	requests  atomic.Uint64

	check, simulate [][]byte // the answers, cut where the count stands

	until atomic.Int64 // when the lease ends, since began

	lock   sync.Mutex
	open   *flight
	wake   chan struct{}
	audits struct {
		lock    sync.Mutex
		records []byte
	}
}

// serveFloorLeader is Serve of the leader.
func (f *Front) serveFloorLeader(in io.Reader, out io.Writer) (err error) {
	l := &floorLeader{
		front: f, table: newFloorTable(), acks: make(chan uint64, 4096), failed: make(chan error, 8),
		began: time.Now(), keys: map[string]bool{"": true, "Bearer": true},
		check: aroundCounts(f.Answers.Check.Body), wake: make(chan struct{}, 1),
		simulate: aroundCounts(f.Answers.Simulate.Body),
	}
	l.open = &flight{done: make(chan struct{})}
	if l.log, err = openFloorLog(f.Folder); err != nil {
		return fmt.Errorf("floor: %w", err)
	}
	for _, address := range f.Servers {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return fmt.Errorf("floor: %w", err)
		}
		l.followers = append(l.followers, conn)
		go l.hear(conn)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("floor: %w", err)
	}
	server := &fasthttp.Server{
		NoDefaultServerHeader: true, Handler: l.handle, MaxRequestBodySize: 64 << 20,
	}
	go l.lead()
	go func() { l.failed <- server.Serve(ln) }()
	go func() {
		_, err := io.Copy(io.Discard, in)
		l.failed <- err
	}()
	if _, err = fmt.Fprintln(out, ln.Addr()); err != nil {
		return err
	}
	return <-l.failed // the process ends with this
}

// hear takes a follower's acknowledgements.
func (l *floorLeader) hear(conn net.Conn) {
	var number [8]byte
	for {
		if _, err := io.ReadFull(conn, number[:]); err != nil {
			l.failed <- err
			return
		}
		l.acks <- binary.LittleEndian.Uint64(number[:])
	}
}

// lead brings frames to a majority and applies them, one after the other.
func (l *floorLeader) lead() {
	var number, acked uint64
	var frame []byte
	tick := time.NewTicker(floorCollects)
	for {
		select {
		case <-l.wake:
			runtime.Gosched() // whatever is ready to propose comes along
		case <-tick.C:
			l.audits.lock.Lock()
			none := len(l.audits.records) == 0
			l.audits.lock.Unlock()
			if none && time.Since(l.began) < time.Duration(l.until.Load())-floorLease/2 {
				continue
			}
		}
		next := &flight{done: make(chan struct{})}
		l.lock.Lock()
		f := l.open
		l.open = next
		l.lock.Unlock()
		sent := time.Since(l.began)
		frame = append(append(frame[:0], make([]byte, frameHead)...), f.records...)
		l.audits.lock.Lock()
		frame = append(frame, l.audits.records...)
		l.audits.records = l.audits.records[:0]
		l.audits.lock.Unlock()
		number++
		putFrameHead(frame, number, number-1)
		var err error
		for _, conn := range l.followers {
			_, writing := conn.Write(frame)
			err = errors.Join(err, writing)
		}
		if err = errors.Join(err, l.log.append(frame)); err != nil {
			l.failed <- err
			return
		}
		for acked < number {
			acked = max(acked, <-l.acks)
		}
		for len(l.acks) > 0 {
			acked = max(acked, <-l.acks)
		}
		l.until.Store(int64(sent + floorLease))
		l.table.apply(f.records, f.fresh)
		close(f.done)
	}
}

// propose brings records into the next frame, and returns it and the place of their first event.
func (l *floorLeader) propose(records []byte, events int) (f *flight, first int) {
	l.lock.Lock()
	f = l.open
	first = len(f.fresh)
	f.records = append(f.records, records...)
	for range events {
		f.fresh = append(f.fresh, false)
	}
	l.lock.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
	<-f.done
	return f, first
}

// names of headers that protect an answer, as nodes set them.
var floorHeaders = [...][2][]byte{
	{[]byte("X-Content-Type-Options"), []byte("nosniff")},
	{[]byte("X-Frame-Options"), []byte("DENY")},
	{[]byte("Content-Security-Policy"), []byte("default-src 'none'; base-uri 'none'; " +
		"form-action 'none'; frame-ancestors 'none'")},
	{[]byte("Cache-Control"), []byte("no-store")},
}

var (
	requestIDHeader = []byte("X-Request-Id")
	jsonType        = []byte("application/json")
)

// answer writes what all answers have in common, with a request's number.
func (l *floorLeader) answer(ctx *fasthttp.RequestCtx, request uint64, status int) {
	h := &ctx.Response.Header
	var id [26]byte
	copy(id[:], "req_0123456789")
	for i := range 12 {
		id[25-i] = "0123456789abcdef"[request>>(4*i)&15]
	}
	h.SetCanonical(requestIDHeader, id[:])
	for i := range floorHeaders {
		h.SetCanonical(floorHeaders[i][0], floorHeaders[i][1])
	}
	h.SetContentTypeBytes(jsonType)
	h.SetStatusCode(status)
}

func (l *floorLeader) handle(ctx *fasthttp.RequestCtx) {
	request := l.requests.Add(1)
	if !l.keys[string(ctx.Request.Header.Peek(fasthttp.HeaderAuthorization))] {
		ctx.SetStatusCode(fasthttp.StatusUnauthorized)
		return
	}
	var err error
	switch path := ctx.Path(); {
	case bytes.HasPrefix(path, checkPath):
		name, _, _ := bytes.Cut(path[len(checkPath):], []byte("/"))
		err = l.decide(ctx, request, name, l.check)
	case bytes.Equal(path, simulatePath):
		name, _ := field(ctx.PostBody(), []byte(`"customerReferenceId":"`))
		err = l.decide(ctx, request, name, l.simulate)
	case bytes.Equal(path, eventPath):
		err = l.record(ctx, request)
	case bytes.Equal(path, batchPath):
		err = l.batch(ctx, request)
	case bytes.Equal(path, createPath):
		name, _ := field(ctx.PostBody(), []byte(`"externalClientCustomerId":"`))
		if len(name) == 0 {
			err = errors.New("no name")
			break
		}
		l.propose(appendRecord(nil, floorCustomer, name), 0)
		l.answer(ctx, request, 201)
	case bytes.Equal(path, syncsPath):
		l.answer(ctx, request, 200)
		ctx.Response.AppendBodyString(fmt.Sprintf(`{"leader":%d}`, l.log.syncs.Load()))
	case bytes.Equal(path, subscribe):
		l.answer(ctx, request, 201)
	default:
		l.answer(ctx, request, 404)
	}
	if err != nil {
		l.answer(ctx, request, 500)
		ctx.Response.SetBodyString(fmt.Sprintf(`{"success":false,"error":{"message":%q}}`, err))
	}
}

var errUnknown = errors.New("unknown customer")

// decide answers a check under the lease, and notes it for the audit. parts is the answer around
// the counts.
func (l *floorLeader) decide(ctx *fasthttp.RequestCtx, request uint64, name []byte,
	parts [][]byte,
) error {
	now := time.Since(l.began)
	if int64(now) > l.until.Load() {
		l.propose(nil, 0)
	}
	row := l.table.find(name)
	if row == nil {
		return errUnknown
	}
	used := row.used.Load()
	var record [28]byte
	binary.LittleEndian.PutUint32(record[:], row.number)
	binary.LittleEndian.PutUint64(record[4:], uint64(used))
	binary.LittleEndian.PutUint64(record[12:], uint64(now))
	binary.LittleEndian.PutUint64(record[20:], request)
	l.audits.lock.Lock()
	l.audits.records = appendRecord(l.audits.records, floorAudit, record[:])
	l.audits.lock.Unlock()
	l.answer(ctx, request, 200)
	for i, part := range parts {
		if i > 0 {
			var digits [20]byte
			ctx.Response.AppendBody(strconv.AppendInt(digits[:0], used, 10))
		}
		ctx.Response.AppendBody(part)
	}
	return nil
}

// appendEvent appends the record of the next event of a body, and returns what follows it.
func (l *floorLeader) appendEvent(dst, body []byte) (_, rest []byte, err error) {
	key, rest := field(body, []byte(`"eventIdempotencyKey":"`))
	name, rest := field(rest, []byte(`"customerReferenceId":"`))
	_, rest, found := bytes.Cut(rest, []byte(`"usageUnits":`))
	units := uint64(0)
	for len(rest) > 0 && rest[0] >= '0' && rest[0] <= '9' {
		units, rest = 10*units+uint64(rest[0]-'0'), rest[1:]
	}
	row := l.table.find(name)
	if !found || len(key) == 0 || row == nil {
		return nil, nil, fmt.Errorf("no usage event: %.100q", body)
	}
	var head [28]byte
	binary.LittleEndian.PutUint32(head[:], row.number)
	binary.LittleEndian.PutUint64(head[4:], units)
	hash := sha256.Sum256(key)
	copy(head[12:], hash[:16])
	if len(rest) > 0 {
		rest = rest[1:] // the closing brace
	}
	return appendRecord(dst, floorEvent, head[:], key), rest, nil
}

func (l *floorLeader) record(ctx *fasthttp.RequestCtx, request uint64) error {
	var room [256]byte
	record, _, err := l.appendEvent(room[:0], ctx.PostBody())
	if err != nil {
		return err
	}
	f, at := l.propose(record, 1)
	a := &l.front.Answers.Event
	if !f.fresh[at] {
		a = &l.front.Answers.Duplicate
	}
	l.answer(ctx, request, a.Status)
	ctx.Response.SetBody(a.Body)
	return nil
}

func (l *floorLeader) batch(ctx *fasthttp.RequestCtx, request uint64) (err error) {
	body, records, events := ctx.PostBody(), make([]byte, 0, len(ctx.PostBody())/2), 0
	for len(body) > 2 {
		if records, body, err = l.appendEvent(records, body); err != nil {
			return err
		}
		events++
	}
	if len(records) > floorFrame/8 {
		return errors.New("a batch is too long")
	}
	f, first := l.propose(records, events)
	l.answer(ctx, request, 200)
	ctx.Response.SetBodyRaw(batchAnswer(f.fresh[first : first+events]))
	return nil
}
