package cluster

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"tollgate/wal"
)

// ErrDamaged means that files of a node cannot be used. Errors that wrap it say which, what was not
// done, and the way back; damage in the log is wal.ErrDamaged.
var ErrDamaged = errors.New("cluster: a file that this node needs is damaged or missing")

// errNoValue is what raft takes for "never stored": it compares the text.
var errNoValue = errors.New("not found")

const (
	voteName = "vote"
	// voteCopyBytes is the place of one copy.
	voteCopyBytes = 4096
)

// voteTwin is the file of term and vote. Its content are the values, sorted, as [key's length
// u16][value's length u16][key][value], little endian.
var voteTwin = twinKind{what: "term and vote", magic: "TGVOTE\x00\x01", copyBytes: voteCopyBytes}

// voteFile is raft's stable store: the few values (term and vote) of one group, in a file that has
// them twice. Both copies are written and synced, in turn, before anything is promised.
type voteFile struct {
	twin *twin

	mu     sync.Mutex
	values map[string][]byte
	failed error // the first failure; nothing is written after it
	// told is term and vote as others may be told: it waits for no disk.
	told atomic.Pointer[mark]
}

var _ raft.StableStore = (*voteFile)(nil)

// openVote opens the file, or makes it. Both copies are on disk when it returns: what a process
// reads may have been written by another that failed to sync it.
func openVote(fsys wal.FS, dir string, log *slog.Logger) (*voteFile, error) {
	name := filepath.Join(dir, voteName)
	v := &voteFile{values: make(map[string][]byte)}
	t, content, bad, err := voteTwin.open(fsys, name)
	switch {
	case errors.Is(err, errNoTwin):
		v.told.Store(&mark{})
		v.twin, err = voteTwin.create(fsys, name, nil)
		return v, err
	case errors.Is(err, ErrDamaged):
		return nil, fmt.Errorf("%w, and without them it might vote twice; nothing was changed; %s",
			err, wal.Rejoin)
	case err != nil:
		return nil, err
	}
	v.twin, v.values = t, parseVote(content)
	for i, err := range bad {
		if err != nil {
			log.Warn("one copy of term and vote was bad; it is written again from the other",
				"file", name, "copy", i, "reason", err)
		}
	}
	if err := t.rewrite(content); err != nil {
		return nil, errors.Join(fmt.Errorf("cluster: write term and vote: %w", err), t.close())
	}
	v.told.Store(v.promised())
	return v, nil
}

// storedTerm is the term in a group's file, which it does not change; 0 where there is none.
func storedTerm(fsys wal.FS, dir string) (term uint64, err error) {
	t, content, _, err := voteTwin.open(fsys, filepath.Join(dir, voteName))
	if errors.Is(err, errNoTwin) || errors.Is(err, ErrDamaged) {
		return 0, nil // openVote says so
	}
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	v := &voteFile{values: parseVote(content)}
	if term, err = v.GetUint64(termKey); errors.Is(err, errNoValue) {
		return 0, nil
	}
	return term, err
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
	v.twin.sequence++
	if err := v.twin.write(v.encode(), 0, 1); err != nil {
		v.values, v.failed = before, err
		return fmt.Errorf("cluster: write term and vote: %w", err)
	}
	if !bytes.Equal(key, voteTermKey) { // for whom comes next
		v.told.Store(v.promised())
	}
	return nil
}

// promised is what the values say of term and vote; the caller holds the lock.
func (v *voteFile) promised() *mark {
	number := func(key []byte) uint64 {
		if b := v.values[string(key)]; len(b) == 8 {
			return binary.BigEndian.Uint64(b)
		}
		return 0
	}
	m := &mark{Term: number(termKey)}
	if candidate, ok := v.values[string(voteCandKey)]; ok && number(voteTermKey) == m.Term {
		m.Vote = voteFor(candidate)
	}
	return m
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
func (v *voteFile) Close() error { return v.twin.close() }

// encode lays the values out.
func (v *voteFile) encode() (content []byte) {
	le := binary.LittleEndian
	for _, key := range slices.Sorted(maps.Keys(v.values)) {
		content = le.AppendUint16(content, uint16(len(key)))
		content = le.AppendUint16(content, uint16(len(v.values[key])))
		content = append(append(content, key...), v.values[key]...)
	}
	return content
}

// parseVote reads what encode has laid out; the copy's checksum says that it is that.
func parseVote(content []byte) map[string][]byte {
	le, values := binary.LittleEndian, make(map[string][]byte)
	for rest := content; len(rest) > 0; {
		k, n := int(le.Uint16(rest)), int(le.Uint16(rest[2:]))
		values[string(rest[4:4+k])] = slices.Clone(rest[4+k : 4+k+n])
		rest = rest[4+k+n:]
	}
	return values
}
