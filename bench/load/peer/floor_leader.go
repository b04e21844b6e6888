package peer

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"tollgate/bench/limits/desk"
	"tollgate/engine/billing"
	"tollgate/server"
)

const (
	// floorCollects is for how long audit events collect, as those of nodes do, and how often an idle
	// leader looks whether its lease has to be renewed. floorBlockBytes end a block of them sooner.
	floorCollects   = 20 * time.Millisecond
	floorBlockBytes = 128 << 10
	// floorLease is for how long a leader may answer since a frame was sent that a majority has.
	floorLease = 200 * time.Millisecond
	// floorFrame is how much a frame has at most.
	floorFrame = 6 << 20
)

// flight is a frame: what its callers wait for.
type flight struct {
	frame    []byte
	events   int
	outcomes []desk.Outcome // of its events; none where the wait took too long
	done     chan struct{}
	once     sync.Once
}

func newFlight(room []byte) *flight {
	return &flight{
		frame: append(room[:0], make([]byte, frameHead)...), done: make(chan struct{}),
	}
}

// end has the callers go on.
func (f *flight) end(outcomes []desk.Outcome) {
	f.once.Do(func() {
		f.outcomes = outcomes
		close(f.done)
	})
}

// floorLeader brings what clients ask into frames.
type floorLeader struct {
	*floorNode
	followers []*floorWire
	acks      chan uint64
	failed    chan error
	began     time.Time
	until     atomic.Int64 // when the lease ends, since began

	lock   sync.Mutex
	open   *flight
	wake   chan struct{}
	audits struct {
		lock     sync.Mutex
		open     *billing.AuditBlock
		spare    *billing.AuditBlock
		sequence uint64
	}
}

// serveFloorLeader is Serve of the leader.
func (f *Front) serveFloorLeader(in io.Reader, out io.Writer) error {
	node, err := openFloorNode(f.Folder)
	if err != nil {
		return err
	}
	l := &floorLeader{
		floorNode: node, acks: make(chan uint64, 4096), failed: make(chan error, 8),
		began: time.Now(), wake: make(chan struct{}, 1), open: newFlight(nil),
	}
	l.audits.open, l.audits.spare = new(billing.AuditBlock), new(billing.AuditBlock)
	l.audits.open.Reset(1, 1, 1)
	config, err := f.Pair.config()
	if err != nil {
		return fmt.Errorf("floor: %w", err)
	}
	for _, address := range f.Servers {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return fmt.Errorf("floor: %w", err)
		}
		w := newFloorWire(conn)
		w.secure = tls.Client(w, config)
		if err = w.secure.HandshakeContext(context.Background()); err != nil {
			return fmt.Errorf("floor: %w", err)
		}
		l.followers = append(l.followers, w)
		go l.receive(w.secure)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("floor: %w", err)
	}
	go l.lead()
	server.Serve(ln, newFloorDesk(f, l).handle, server.DefaultLimits())
	go func() { l.failed <- f.await(in) }()
	if _, err = fmt.Fprintln(out, ln.Addr()); err != nil {
		return err
	}
	return <-l.failed // the process ends with this
}

// receive takes a follower's acknowledgements.
func (l *floorLeader) receive(conn io.Reader) {
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
	var room []byte
	tick := time.NewTicker(floorCollects)
	for {
		select {
		case <-l.wake:
			runtime.Gosched() // whatever is ready to propose comes along
		case <-tick.C:
			l.audits.lock.Lock()
			none := l.audits.open.Len() == 0
			l.audits.lock.Unlock()
			if none && time.Since(l.began) < time.Duration(l.until.Load())-floorLease/2 {
				continue
			}
		}
		next := newFlight(room)
		l.lock.Lock()
		f := l.open
		l.open = next
		l.lock.Unlock()
		timeout := time.AfterFunc(requestTimeout, func() { f.end(nil) })
		now := time.Now()
		frame := l.appendAudits(f.frame)
		number++
		putFrameHead(frame, number, number-1, now.UnixMilli())
		var err error
		for _, follower := range l.followers {
			err = errors.Join(err, follower.send(frame))
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
		l.until.Store(int64(now.Sub(l.began) + floorLease))
		outcomes := make([]desk.Outcome, f.events)
		for i, result := range l.apply(frame) {
			outcomes[i] = result.Outcome
		}
		timeout.Stop()
		f.end(outcomes)
		room = frame
	}
}

// appendAudits appends the block of audit events that has collected.
func (l *floorLeader) appendAudits(frame []byte) []byte {
	a := &l.audits
	a.lock.Lock()
	block := a.open
	if block.Len() == 0 {
		a.lock.Unlock()
		return frame
	}
	a.open, a.spare = a.spare, block
	a.sequence++
	a.open.Reset(1, 1, a.sequence+1)
	a.lock.Unlock()
	at := len(frame)
	return endRecord(block.Encode(beginRecord(frame, floorAudit)), at)
}

// audit notes a check.
func (l *floorLeader) audit(c *billing.AuditCheck) {
	l.audits.lock.Lock()
	l.audits.open.Add(c)
	full := l.audits.open.Bytes() > floorBlockBytes
	l.audits.lock.Unlock()
	if full {
		l.awake()
	}
}

func (l *floorLeader) awake() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// propose brings records into the next frame, and returns what became of those events that are
// among them; false where that is not known, or there is no room.
func (l *floorLeader) propose(records []byte, events int) ([]desk.Outcome, bool) {
	l.lock.Lock()
	f := l.open
	first := f.events
	if len(f.frame)+len(records) > floorFrame-2*floorBlockBytes {
		l.lock.Unlock()
		return nil, false
	}
	f.frame = append(f.frame, records...)
	f.events += events
	l.lock.Unlock()
	l.awake()
	<-f.done
	if f.outcomes == nil {
		return nil, false
	}
	return f.outcomes[first : first+events], true
}

// leads reports whether this node leads still, at an instant since began. It asks the others where
// nothing has told lately.
func (l *floorLeader) leads(now time.Duration) bool {
	if int64(now) < l.until.Load() {
		return true
	}
	_, ok := l.propose(nil, 0)
	return ok
}
