package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"

	"github.com/hashicorp/raft"

	"tollgate/wal"
)

// ErrDamaged says that files of a node cannot be used. Errors that wrap it say which, what was not
// done, and the way back; damage in the log is wal.ErrDamaged.
var ErrDamaged = errors.New("cluster: a file that this node needs is damaged or missing")

// errNoValue is what raft takes for "never stored": it compares the text.
var errNoValue = errors.New("not found")

const (
	voteName = "vote"
	// voteCopyBytes is the place of one copy: whole sectors, so that no crash tears two of them.
	voteCopyBytes = 4096
	voteMagic     = "TGVOTE\x00\x01"
	voteHeadBytes = len(voteMagic) + 4 + 4 + 8 // magic, checksum, values' length, sequence
)

// voteFile is raft's stable store: the few values (term and vote) of one group, in a file that has
// them twice. Whatever becomes of one copy, torn or rotten, the other has what was promised last:
// each is written and synced by itself, in turn, before anything is promised.
type voteFile struct {
	file wal.File

	mu       sync.Mutex
	values   map[string][]byte
	sequence uint64
	failed   error // the first failure; nothing is written after it
}

var _ raft.StableStore = (*voteFile)(nil)

// openVote opens the file, or makes it. Both copies are on disk when it returns: what a process
// reads may have been written by another that failed to sync it.
func openVote(fsys wal.FS, dir string, log *slog.Logger) (*voteFile, error) {
	name := filepath.Join(dir, voteName)
	v := &voteFile{values: make(map[string][]byte)}
	f, err := fsys.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return v, v.create(fsys, name)
	}
	if err != nil {
		return nil, fmt.Errorf("cluster: open term and vote: %w", err)
	}
	v.file = f
	if err := v.recover(name, log); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return v, nil
}

func (v *voteFile) create(fsys wal.FS, name string) (err error) {
	if v.file, err = fsys.Create(name + ".tmp"); err != nil {
		return fmt.Errorf("cluster: create term and vote: %w", err)
	}
	if err = v.write([2]int{0, 1}); err == nil {
		err = fsys.Rename(name+".tmp", name)
	}
	if err == nil {
		err = fsys.SyncDir(filepath.Dir(name))
	}
	if err != nil {
		return fmt.Errorf("cluster: create term and vote: %w", err)
	}
	return nil
}

// readVotes reads both copies, and says what is bad about each and which is the newer good one, -1
// for none.
func readVotes(f wal.File) (copies [2]voteCopy, bad [2]error, best int) {
	best = -1
	for i := range copies {
		copies[i], bad[i] = readVote(f, i)
		if bad[i] == nil && (best < 0 || copies[i].sequence > copies[best].sequence) {
			best = i
		}
	}
	return copies, bad, best
}

// storedTerm is the term in a group's file, which it does not change; 0 where there is none.
func storedTerm(fsys wal.FS, dir string) (term uint64, err error) {
	f, err := fsys.Open(filepath.Join(dir, voteName))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("cluster: open term and vote: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	copies, _, best := readVotes(f)
	if best < 0 {
		return 0, nil // openVote says so
	}
	v := &voteFile{values: copies[best].values}
	if term, err = v.GetUint64(termKey); errors.Is(err, errNoValue) {
		return 0, nil
	}
	return term, err
}

// recover takes the newer good copy and writes both again, the worse one first.
func (v *voteFile) recover(name string, log *slog.Logger) error {
	copies, bad, best := readVotes(v.file)
	if best < 0 {
		return fmt.Errorf("%w: %s: both copies of term and vote are bad (%w; %w), and without them "+
			"it might vote twice; nothing was changed; %s", ErrDamaged, name, bad[0], bad[1], wal.Rejoin)
	}
	if err := bad[1-best]; err != nil {
		log.Warn("one copy of term and vote was bad; it is written again from the other",
			"file", name, "copy", 1-best, "reason", err)
	}
	v.values, v.sequence = copies[best].values, copies[best].sequence
	if err := v.write([2]int{1 - best, best}); err != nil {
		return fmt.Errorf("cluster: write term and vote: %w", err)
	}
	return nil
}

// write puts the present values into the two copies, in an order, each synced before the next.
func (v *voteFile) write(order [2]int) error {
	b := voteCopy{v.sequence, v.values}.encode()
	if len(b) > voteCopyBytes {
		return fmt.Errorf("cluster: term and vote have %d bytes, at most %d fit", len(b), voteCopyBytes)
	}
	b = append(b, make([]byte, voteCopyBytes-len(b))...)
	for _, i := range order {
		if _, err := v.file.WriteAt(b, int64(i)*voteCopyBytes); err != nil {
			return err
		}
		if err := v.file.SyncData(); err != nil {
			return err
		}
	}
	return nil
}

// Set stores a value durably. After the first failure it stores nothing any more: what is on disk
// is unknown then.
func (v *voteFile) Set(key, value []byte) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.failed != nil {
		return fmt.Errorf("cluster: term and vote: refused, an earlier write failed: %w", v.failed)
	}
	before := v.values
	v.values = maps.Clone(before)
	v.values[string(key)] = slices.Clone(value)
	v.sequence++
	if err := v.write([2]int{0, 1}); err != nil {
		v.values, v.failed = before, err
		return fmt.Errorf("cluster: write term and vote: %w", err)
	}
	return nil
}

// Get returns a value.
func (v *voteFile) Get(key []byte) ([]byte, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	value, ok := v.values[string(key)]
	if !ok {
		return nil, errNoValue
	}
	return slices.Clone(value), nil
}

// SetUint64 stores a number durably, as Set does.
func (v *voteFile) SetUint64(key []byte, n uint64) error {
	return v.Set(key, binary.BigEndian.AppendUint64(nil, n))
}

// GetUint64 returns a number.
func (v *voteFile) GetUint64(key []byte) (uint64, error) {
	b, err := v.Get(key)
	if err != nil {
		return 0, err
	}
	if len(b) != 8 {
		return 0, fmt.Errorf("cluster: %s is no number", key)
	}
	return binary.BigEndian.Uint64(b), nil
}

// Close closes the file.
func (v *voteFile) Close() error {
	if v.file == nil {
		return nil
	}
	return v.file.Close()
}

// voteCopy is one of the two copies.
type voteCopy struct {
	sequence uint64
	values   map[string][]byte
}

// encode lays a copy out: magic, CRC-32C of what follows it, length of the values, sequence; the
// values, sorted, as [key's length u16][value's length u16][key][value]. Numbers are little endian.
func (c voteCopy) encode() []byte {
	le := binary.LittleEndian
	var body []byte
	for _, key := range slices.Sorted(maps.Keys(c.values)) {
		body = le.AppendUint16(body, uint16(len(key)))
		body = le.AppendUint16(body, uint16(len(c.values[key])))
		body = append(append(body, key...), c.values[key]...)
	}
	b := append(make([]byte, 0, voteCopyBytes), voteMagic...)
	b = le.AppendUint32(b, 0)
	b = le.AppendUint32(b, uint32(len(body)))
	b = le.AppendUint64(b, c.sequence)
	b = append(b, body...)
	le.PutUint32(b[len(voteMagic):], crc32.Checksum(b[len(voteMagic)+4:], castagnoli))
	return b
}

var errBadVote = errors.New("not a copy that was written whole")

func readVote(f wal.File, i int) (voteCopy, error) {
	le, b := binary.LittleEndian, make([]byte, voteCopyBytes)
	if _, err := f.ReadAt(b, int64(i)*voteCopyBytes); err != nil {
		return voteCopy{}, fmt.Errorf("copy %d: %w", i, err)
	}
	head := len(voteMagic)
	size := int(le.Uint32(b[head+4:]))
	if string(b[:head]) != voteMagic || size > voteCopyBytes-voteHeadBytes ||
		le.Uint32(b[head:]) != crc32.Checksum(b[head+4:voteHeadBytes+size], castagnoli) {
		return voteCopy{}, fmt.Errorf("copy %d: %w", i, errBadVote)
	}
	c := voteCopy{le.Uint64(b[head+8:]), make(map[string][]byte)}
	for rest := b[voteHeadBytes : voteHeadBytes+size]; len(rest) > 0; {
		k, n := int(le.Uint16(rest)), int(le.Uint16(rest[2:]))
		c.values[string(rest[4:4+k])] = slices.Clone(rest[4+k : 4+k+n])
		rest = rest[4+k+n:]
	}
	return c, nil
}
