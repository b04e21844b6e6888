package peer

import (
	"bufio"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"os"
	"path/filepath"

	"tollgate/bench/limits/desk"
	"tollgate/cluster/segments"
	"tollgate/engine/billing"
	"tollgate/engine/idempotency"
	"tollgate/server"
)

// The floor does on three processes what checks and events ask of any design, in the best way
// known: a target that it misses is out of reach. DESIGN.md lists what it leaves out.

// Kinds of records. Each begins with its kind and its length, of three bytes.
const (
	floorCustomer = 1 + iota // its name
	floorEvent               // billing.RecordUsage
	floorAudit               // billing.AuditBlock
)

// recordHead is how long a record's kind and length are.
const recordHead = 4

// beginRecord begins a record of a kind at the end of dst; endRecord ends it, which began at.
func beginRecord(dst []byte, kind byte) []byte { return append(dst, kind, 0, 0, 0) }

func endRecord(dst []byte, at int) []byte {
	size := len(dst) - at - recordHead
	dst[at+1], dst[at+2], dst[at+3] = byte(size), byte(size>>8), byte(size>>16)
	return dst
}

// nextRecord cuts the first record off.
func nextRecord(records []byte) (kind byte, body, rest []byte) {
	size := int(records[1]) | int(records[2])<<8 | int(records[3])<<16
	return records[0], records[recordHead : recordHead+size], records[recordHead+size:]
}

// Of a frame the head has length, checksum of what follows it, number, the number of the newest one
// that is committed, and the time.
const frameHead = 4 + 4 + 8 + 8 + 8

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func putFrameHead(frame []byte, number, committed uint64, now int64) {
	binary.LittleEndian.PutUint32(frame, uint32(len(frame)))
	binary.LittleEndian.PutUint64(frame[8:], number)
	binary.LittleEndian.PutUint64(frame[16:], committed)
	binary.LittleEndian.PutUint64(frame[24:], uint64(now))
	binary.LittleEndian.PutUint32(frame[4:], crc32.Checksum(frame[8:], castagnoli))
}

// floorNode is what each of the three keeps: the log, the state, and the journal's segments.
type floorNode struct {
	log      *floorLog
	desk     *desk.Desk
	segments *segments.Store
	events   [][]byte
}

// floorRetention is for how long idempotency keys are kept, in milliseconds.
const floorRetention = 35 * 24 * 3600 * 1000

func openFloorNode(folder string) (n *floorNode, err error) {
	n = &floorNode{desk: desk.New(1024, idempotency.New(floorRetention))}
	if n.log, err = openFloorLog(folder); err != nil {
		return nil, fmt.Errorf("floor: %w", err)
	}
	n.segments, err = segments.Open(filepath.Join(folder, "segments"), n.desk.Journal(),
		billing.IndexRecord, segments.Options{})
	if err != nil {
		return nil, fmt.Errorf("floor: %w", err)
	}
	return n, nil
}

// apply applies a frame, and returns what became of its events.
func (n *floorNode) apply(frame []byte) []desk.Result {
	n.desk.Begin(int64(binary.LittleEndian.Uint64(frame[24:])))
	n.events = n.events[:0]
	position := 0
	flush := func() {
		n.desk.Events(n.events, position-len(n.events))
		n.events = n.events[:0]
	}
	for records := frame[frameHead:]; len(records) > 0; position++ {
		var kind byte
		var body []byte
		if kind, body, records = nextRecord(records); kind == floorEvent {
			if len(n.events) == desk.Together {
				flush()
			}
			n.events = append(n.events, body)
			continue
		}
		flush()
		if kind == floorAudit {
			n.desk.Audit(body, position)
		} else {
			n.desk.Enrol(body)
		}
	}
	flush()
	for _, sealed := range n.desk.End() {
		n.segments.Put(sealed)
	}
	return n.desk.Results
}

// followFloor is Serve of a follower: it makes the leader's frames durable, says so, and applies
// those that are committed.
func (f *Front) followFloor(in io.Reader, out io.Writer) error {
	node, err := openFloorNode(f.Folder)
	if err != nil {
		return err
	}
	config, err := f.Pair.config()
	if err != nil {
		return fmt.Errorf("floor: %w", err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("floor: %w", err)
	}
	ended := make(chan error, 2)
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				ended <- err
				return
			}
			go node.follow(conn, config) // the harness connects once, to see that it listens
		}
	}()
	if _, err = fmt.Fprintln(out, ln.Addr()); err != nil {
		return err
	}
	go func() { ended <- f.await(in) }()
	return <-ended // the process ends with this
}

func (n *floorNode) follow(conn net.Conn, config *tls.Config) {
	defer func() { _ = conn.Close() }()
	w := newFloorWire(conn)
	if w.secure = tls.Server(w, config); w.secure.Handshake() != nil {
		return
	}
	reader := bufio.NewReaderSize(w.secure, 64<<10)
	var frame, before []byte
	for {
		head, err := reader.Peek(4)
		if err != nil {
			return
		}
		size := int(binary.LittleEndian.Uint32(head))
		if cap(frame) < size {
			frame = make([]byte, size+size/4)
		}
		frame = frame[:size]
		if _, err = io.ReadFull(reader, frame); err != nil {
			return
		}
		if err = n.log.append(frame); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return
		}
		if err = w.send(frame[8:16]); err != nil {
			return
		}
		// A frame is sent when the one before it is committed.
		if len(before) > 0 {
			n.apply(before)
		}
		frame, before = before, frame
	}
}

// followerFolders are where the followers of the floor keep their files.
func (s *system) followerFolders() []string {
	return []string{filepath.Join(s.folder, "follower1"), filepath.Join(s.folder, "follower2")}
}

// serveFloor starts the followers; the front is the leader.
func serveFloor(ctx context.Context, s *system) (err error) {
	s.front.Servers = nil
	if s.front.Pair, err = mintPair(); err != nil {
		return err
	}
	s.key = server.MintKey(server.KeyPrefixSandbox)
	hash := sha256.Sum256([]byte(s.key))
	s.front.KeyHash = hash[:]
	for _, folder := range s.followerFolders() {
		if err := os.Mkdir(folder, 0o700); err != nil {
			return err
		}
		p, address, err := s.spawn(ctx, Front{
			Store: "floor-follower", Folder: folder, Pair: s.front.Pair,
		})
		if p != nil {
			s.servers = append(s.servers, p)
		}
		if err != nil {
			return err
		}
		s.front.Servers = append(s.front.Servers, address)
	}
	return nil
}
