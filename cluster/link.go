package cluster

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A node link carries calls from one node to another: forwarding, read indexes, clocks, segments.
// Every message is
//
//	length  4 bytes  of what follows
//	kind    1 byte   callKind; answers have the top bit set
//	shard   2 bytes
//	id      8 bytes  the caller's; the answer repeats it
//	payload
//
// little endian. Requests are handled in the order in which they arrive, answers come in any.
const messageHead = 15

const (
	// maxRequest and maxAnswer bound what a peer can make this node hold.
	maxRequest = 1 << 20
	maxAnswer  = 64 << 20
	// maxQueued is how many messages may wait for a connection's writer.
	maxQueued = 1024
)

var (
	errLinkDown = errors.New("cluster: no connection to that node")
	errLinkLost = errors.New("cluster: the connection to that node was lost")
	errMessage  = errors.New("cluster: malformed message of another node")
)

type message struct {
	kind    callKind
	shard   uint16
	id      uint64
	payload []byte
}

func writeMessage(w *bufio.Writer, m message) error {
	var head [messageHead]byte
	binary.LittleEndian.PutUint32(head[0:], uint32(messageHead-4+len(m.payload)))
	head[4] = byte(m.kind)
	binary.LittleEndian.PutUint16(head[5:], m.shard)
	binary.LittleEndian.PutUint64(head[7:], m.id)
	if _, err := w.Write(head[:]); err != nil {
		return err
	}
	_, err := w.Write(m.payload)
	return err
}

func readMessage(r io.Reader, limit uint32) (message, error) {
	var head [messageHead]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return message{}, err
	}
	size := binary.LittleEndian.Uint32(head[0:])
	if size < messageHead-4 || size-(messageHead-4) > limit {
		return message{}, fmt.Errorf("%w: %d bytes", errMessage, size)
	}
	m := message{
		kind:    callKind(head[4]),
		shard:   binary.LittleEndian.Uint16(head[5:]),
		id:      binary.LittleEndian.Uint64(head[7:]),
		payload: make([]byte, size-(messageHead-4)),
	}
	_, err := io.ReadFull(r, m.payload)
	return m, err
}

// wire is one connection with a writer of its own, which joins what waits into one write.
type wire struct {
	conn    net.Conn
	out     chan message
	timeout time.Duration // of one write
	ended   chan struct{}
	once    sync.Once
	hungUp  atomic.Bool // the other end has closed it
}

// note records why a connection cannot be used any more.
func (w *wire) note(err error) {
	if !late(err) && !errors.Is(err, net.ErrClosed) && !errors.Is(err, errMessage) {
		w.hungUp.Store(true)
	}
}

func newWire(conn net.Conn, timeout time.Duration) *wire {
	return &wire{
		conn: conn, out: make(chan message, maxQueued), timeout: timeout,
		ended: make(chan struct{}),
	}
}

// send queues a message; false when the connection has ended or its queue is full.
func (w *wire) send(m message) bool {
	select {
	case <-w.ended:
		return false
	default:
	}
	select {
	case w.out <- m:
		return true
	default:
		return false
	}
}

func (w *wire) write() error {
	b := bufio.NewWriterSize(w.conn, 64<<10)
	for {
		select {
		case m := <-w.out:
			if err := w.conn.SetWriteDeadline(time.Now().Add(w.timeout)); err != nil {
				return err
			}
			if err := writeMessage(b, m); err != nil {
				return err
			}
			if len(w.out) > 0 {
				continue
			}
			if err := b.Flush(); err != nil {
				return err
			}
		case <-w.ended:
			return nil
		}
	}
}

// end closes the connection; the first caller's error is kept.
func (w *wire) end(log *slog.Logger) {
	w.once.Do(func() {
		close(w.ended)
		if err := w.conn.Close(); err != nil {
			log.Debug("close a node link", "error", err)
		}
	})
}

// link is the calling end of a node link. It reconnects automatically.
type link struct {
	peer    Member
	port    *port
	clocks  *clocks
	timeout time.Duration
	log     *slog.Logger
	// failed is called with the reason that the peer could not be reached; nil when it was.
	failed func(error)
	// back is called when the peer answers again.
	back func(peer string)
	// promised is called with what the peer has promised so far, encoded by peering.appendMarks.
	promised func(peer string, said []byte)
	// hungUp is called when the peer is gone: it closed a connection and accepts no new one, so its
	// process has ended, or something in between behaves the same. gone is true while this lasts.
	hungUp func()
	gone   atomic.Bool
	// tried reports whether a connection was tried, successfully or not.
	tried   atomic.Bool
	closing chan struct{}
	once    sync.Once
	wg      sync.WaitGroup

	mu         sync.Mutex
	wire       *wire
	next       uint64
	pending    map[uint64]func([]byte, error)
	answeredAt int64 // monotonic: the last answer to a clock call, 0 as long as there was none
	silent     bool  // it did not answer in time, and has not answered since
	trouble    error // why the last attempt to connect failed
}

const (
	redialEvery = 100 * time.Millisecond
	// silentAfter is how long a peer may leave clock calls unanswered.
	silentAfter = 3 * time.Second
)

func (l *link) run() {
	hungUp := false // the peer has closed a connection before
	for {
		conn, err := l.port.dial(l.peer.Raft, streamLink, l.timeout)
		l.note(err)
		switch {
		case err == nil:
			l.gone.Store(false)
			begun := time.Now()
			hungUp = l.serve(conn)
			if hungUp && time.Since(begun) >= redialEvery {
				continue // tests whether it accepts a connection
			}
		case hungUp && !late(err) && !refuses(err):
			l.gone.Store(true)
			l.hungUp()
		}
		hungUp = false
		select {
		case <-time.After(redialEvery):
		case <-l.closing:
			return
		}
	}
}

// note remembers why the peer cannot be reached.
func (l *link) note(err error) {
	l.mu.Lock()
	news := err != nil && (l.trouble == nil || l.trouble.Error() != err.Error())
	l.trouble = err
	l.silent = l.silent || err != nil && l.answeredAt != 0
	l.mu.Unlock()
	if news && refuses(err) {
		l.log.Warn("a node does not speak with this one", "error", err)
	} else if err != nil {
		l.log.Debug("cannot reach a node", "error", err)
	}
	l.failed(err)
	l.tried.Store(true)
}

// problem is why the peer cannot be reached, in words; "" if it can, or does not answer at all.
func (l *link) problem() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if refuses(l.trouble) {
		return l.trouble.Error()
	}
	return ""
}

// refuses reports whether a peer was reached and one end rejects the other.
func refuses(err error) bool {
	return errors.Is(err, errMistaken) || errors.Is(err, errNotMember) || errors.Is(err, errForeign)
}

// late reports whether an error is a timeout, which proves nothing about the other end.
func late(err error) bool {
	var network net.Error
	return errors.As(err, &network) && network.Timeout()
}

// serve keeps one connection until it ends, then fails every call that waits for an answer. It
// reports whether the peer has ended it.
func (l *link) serve(conn net.Conn) (hungUp bool) {
	w := newWire(conn, l.timeout)
	var wg sync.WaitGroup
	wg.Go(func() {
		defer w.end(l.log)
		if err := w.write(); err != nil {
			w.note(err)
			l.log.Debug("write to a node", "error", err)
		}
	})
	wg.Go(func() { l.keepClock(w) })
	l.mu.Lock()
	l.wire, l.answeredAt = w, monotonic()
	back := l.silent
	l.silent = false
	l.mu.Unlock()
	if back {
		l.back(l.peer.ID)
		l.log.Info("a node answers again")
	}
	l.read(w)
	w.end(l.log)

	l.mu.Lock()
	l.wire = nil
	lost := l.pending
	l.pending = make(map[uint64]func([]byte, error))
	l.mu.Unlock()
	for _, reply := range lost {
		reply(nil, errLinkLost)
	}
	wg.Wait()
	return w.hungUp.Load()
}

func (l *link) read(w *wire) {
	r := bufio.NewReaderSize(w.conn, 64<<10)
	for {
		m, err := readMessage(r, maxAnswer)
		if err != nil {
			select {
			case <-w.ended:
			default:
				w.note(err)
				l.log.Debug("read from a node", "error", err)
			}
			return
		}
		l.mu.Lock()
		reply := l.pending[m.id]
		delete(l.pending, m.id)
		l.mu.Unlock()
		if reply != nil {
			reply(m.payload, nil)
		}
	}
}

// keepClock asks for the time, which also shows that the peer is alive.
func (l *link) keepClock(w *wire) {
	for {
		asked := time.Now()
		err := l.call(callClock, 0, nil, func(reply []byte, err error) {
			if err == nil && len(reply) >= 8 {
				theirs := int64(binary.LittleEndian.Uint64(reply))
				l.promised(l.peer.ID, reply[8:])
				l.clocks.learn(l.peer.ID, theirs, time.Since(asked))
				l.mu.Lock()
				l.answeredAt = monotonic()
				l.mu.Unlock()
			}
		})
		if err != nil || !l.reachable() {
			w.end(l.log)
			return
		}
		select {
		case <-time.After(clockEvery):
		case <-w.ended:
			return
		case <-l.closing:
			w.end(l.log)
			return
		}
	}
}

// reachable reports whether the peer answered within the last 3 s.
func (l *link) reachable() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.wire != nil && monotonic()-l.answeredAt < int64(silentAfter)
}

// seen is when the peer last answered; false when it never has since this process began.
func (l *link) seen() (at time.Time, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Add(-time.Duration(monotonic() - l.answeredAt)), l.answeredAt != 0
}

// call sends a request; see peers.
func (l *link) call(
	k callKind, shard uint16, payload []byte, reply func([]byte, error),
) error {
	l.mu.Lock()
	w := l.wire
	if w == nil {
		l.mu.Unlock()
		return errLinkDown
	}
	l.next++
	id := l.next
	l.pending[id] = reply
	l.mu.Unlock()
	if w.send(message{k, shard, id, payload}) {
		return nil
	}
	l.mu.Lock()
	_, mine := l.pending[id]
	delete(l.pending, id)
	l.mu.Unlock()
	if !mine {
		return nil // the connection ended meanwhile, and reply was called
	}
	return errLinkDown
}

// Close ends the link. It may be called twice at once, when a node stops just as the peer leaves:
// both calls wait for its end.
func (l *link) Close() {
	l.once.Do(func() { close(l.closing) })
	l.mu.Lock()
	w := l.wire
	l.mu.Unlock()
	if w != nil {
		w.end(l.log)
	}
	l.wg.Wait()
}

// callee answers requests of other nodes. It is called in the order in which requests of one
// connection arrive; answer may be called later, from any goroutine.
type callee func(k callKind, shard uint16, payload []byte, answer func([]byte))

// serveLink is the answering end of a node link; it returns when the connection ends.
func serveLink(conn net.Conn, timeout time.Duration, log *slog.Logger, serve callee) {
	w := newWire(conn, timeout)
	var wg sync.WaitGroup
	wg.Go(func() {
		defer w.end(log)
		if err := w.write(); err != nil {
			log.Debug("answer a node", "error", err)
		}
	})
	r := bufio.NewReaderSize(conn, 64<<10)
	for {
		m, err := readMessage(r, maxRequest)
		if err != nil {
			break
		}
		serve(m.kind, m.shard, m.payload, func(payload []byte) {
			if !w.send(message{m.kind | answerBit, m.shard, m.id, payload}) {
				w.end(log) // an answer that cannot be sent ends the connection: the caller sees an unknown fate
			}
		})
	}
	w.end(log)
	wg.Wait()
}
