package peer

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
)

// The floor does on three processes the least that any design of checks and events must do, in the
// cheapest known way: a target that it misses is out of reach. DESIGN.md lists what it leaves out.

// Kinds of records. Each begins with its kind and its length, of two bytes.
const (
	floorCustomer = 1 + iota // its name
	floorEvent               // row (4), units (8), key's hash (16), key
	floorAudit               // row (4), count (8), time (8), request's number (8)
)

// recordHead is how long a record's kind and length are.
const recordHead = 3

// appendRecord appends a record of several parts.
func appendRecord(dst []byte, kind byte, parts ...[]byte) []byte {
	dst = append(dst, kind, 0, 0)
	at := len(dst)
	for _, part := range parts {
		dst = append(dst, part...)
	}
	binary.LittleEndian.PutUint16(dst[at-2:], uint16(len(dst)-at))
	return dst
}

// Of a frame the head has length, number, and the number of the newest one that is committed.
const frameHead = 4 + 8 + 8

func putFrameHead(frame []byte, number, committed uint64) {
	binary.LittleEndian.PutUint32(frame, uint32(len(frame)))
	binary.LittleEndian.PutUint64(frame[4:], number)
	binary.LittleEndian.PutUint64(frame[12:], committed)
}

// floorRow is a customer.
type floorRow struct {
	number uint32
	used   atomic.Int64
}

// floorShards bounds how often a reader of the names meets a writer.
const floorShards = 64

// floorTable is the state of a node: one goroutine applies, any reads.
type floorTable struct {
	shards [floorShards]struct {
		lock sync.RWMutex
		rows map[string]*floorRow
	}
	rows []*floorRow
	keys floorKeys
}

func newFloorTable() *floorTable {
	t := new(floorTable)
	for i := range t.shards {
		t.shards[i].rows = map[string]*floorRow{}
	}
	return t
}

// find returns a customer; nil where there is none.
func (t *floorTable) find(name []byte) *floorRow {
	if len(name) == 0 {
		return nil
	}
	s := &t.shards[name[len(name)-1]%floorShards]
	s.lock.RLock()
	row := s.rows[string(name)]
	s.lock.RUnlock()
	return row
}

// apply applies a frame's records. It notes in fresh which of its events are counted.
func (t *floorTable) apply(records []byte, fresh []bool) {
	events := 0
	for len(records) > 0 {
		size := int(binary.LittleEndian.Uint16(records[1:]))
		body := records[recordHead : recordHead+size]
		switch records[0] {
		case floorCustomer:
			s := &t.shards[body[len(body)-1]%floorShards]
			s.lock.Lock()
			if s.rows[string(body)] == nil {
				row := &floorRow{number: uint32(len(t.rows))}
				t.rows = append(t.rows, row)
				s.rows[string(body)] = row
			}
			s.lock.Unlock()
		case floorEvent:
			counted := t.keys.add([16]byte(body[12:]))
			if counted {
				t.rows[binary.LittleEndian.Uint32(body)].used.Add(int64(
					binary.LittleEndian.Uint64(body[4:])))
			}
			if events < len(fresh) {
				fresh[events] = counted
			}
			events++
		}
		records = records[recordHead+size:]
	}
}

// floorKeys are hashes of the keys that were used: open addressing in parts, so that a growth
// moves few.
type floorKeys [1024]struct {
	slots [][16]byte
	used  int
}

// add adds a key, and reports whether it was not there.
func (k *floorKeys) add(key [16]byte) bool {
	part := &k[binary.LittleEndian.Uint16(key[:])%1024]
	if 4*part.used >= 3*len(part.slots) {
		old := part.slots
		part.slots = make([][16]byte, max(64, 2*len(old)))
		for _, slot := range old {
			if slot != ([16]byte{}) {
				place(part.slots, slot)
			}
		}
	}
	if !place(part.slots, key) {
		return false
	}
	part.used++
	return true
}

func place(slots [][16]byte, key [16]byte) bool {
	at := binary.LittleEndian.Uint32(key[4:])
	for {
		switch slot := &slots[at%uint32(len(slots))]; *slot {
		case [16]byte{}:
			*slot = key
			return true
		case key:
			return false
		}
		at++
	}
}

// followFloor is Serve of a follower: it makes the leader's frames durable, says so, and applies
// those that are committed.
func (f *Front) followFloor(in io.Reader, out io.Writer) error {
	log, err := openFloorLog(f.Folder)
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
			go follow(conn, log) // the harness connects once, to see that it listens
		}
	}()
	if _, err = fmt.Fprintln(out, ln.Addr()); err != nil {
		return err
	}
	go func() {
		_, err := io.Copy(io.Discard, in)
		ended <- err
	}()
	return <-ended // the process ends with this
}

func follow(conn net.Conn, log *floorLog) {
	defer func() { _ = conn.Close() }()
	reader, table := bufio.NewReaderSize(conn, 256<<10), newFloorTable()
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
		if err = log.append(frame); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return
		}
		if _, err = conn.Write(frame[4:12]); err != nil {
			return
		}
		// A frame is sent when the one before it is committed.
		if len(before) > 0 {
			table.apply(before[frameHead:], nil)
		}
		frame, before = before, frame
	}
}

// serveFloor starts the followers; the front is the leader.
func serveFloor(ctx context.Context, s *system) error {
	s.front.Servers = nil
	for i := range 2 {
		folder := fmt.Sprintf("%s/follower%d", s.folder, i+1)
		if err := os.Mkdir(folder, 0o700); err != nil {
			return err
		}
		p, address, err := s.spawn(ctx, Front{Store: "floor-follower", Folder: folder})
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
