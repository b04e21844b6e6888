package cluster

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"tollgate/cluster/boltfile"
	"tollgate/wal"
)

// errNoValue means "never stored" to raft, which compares the text.
var errNoValue = errors.New("not found")

const (
	voteName = "vote"
	// boltName is the file of raft-boltdb.
	boltName = "vote.bolt"
	// voteCopyBytes is the place of one copy.
	voteCopyBytes = 4096
)

// voteTwin is the file of term and vote. Its content are the values, sorted, as [key's length
// u16][value's length u16][key][value], little endian.
var voteTwin = twinKind{what: "term and vote", magic: "TGVOTE\x00\x01", copyBytes: voteCopyBytes}

// voteFile is raft's stable store: the few values (term and vote) of one group. `vote` holds them
// twice; on the operating system's files, `vote.bolt` holds a third copy in another format. All
// copies are on disk before this node promises anything.
type voteFile struct {
	twin *twin
	copy *voteCopy // nil on files that bbolt cannot use

	mu     sync.Mutex
	values map[string][]byte
	failed error // the first failure; nothing is written after it
	// published is the term and vote that others may learn; reading it waits for no disk.
	published atomic.Pointer[mark]
}

// voteCopy is `vote.bolt`. Its record is the sequence (u64, little endian) and the content of
// `vote`.
type voteCopy struct {
	put   func(record []byte) error
	close func() error
}

var _ raft.StableStore = (*voteFile)(nil)

// openVote opens the files, or makes them. The newest good content is on disk in both when it
// returns: what a process reads may have been written by another that failed to sync it.
func openVote(fsys wal.FS, dir string, log *slog.Logger) (*voteFile, error) {
	found, err := readVote(fsys, dir)
	if errors.Is(err, ErrDamaged) {
		return nil, fmt.Errorf("%w, and without them it might vote twice; nothing was changed; %s",
			err, wal.Rejoin)
	}
	if err != nil {
		return nil, err
	}
	for _, bad := range found.bad {
		log.Warn("a copy of term and vote was bad; it is written again from another",
			"folder", dir, "reason", bad)
	}
	v := &voteFile{twin: found.twin, values: parseVote(found.content)}
	if v.twin == nil {
		name := filepath.Join(dir, voteName)
		v.twin, err = voteTwin.create(fsys, name, found.sequence, found.content)
	} else {
		v.twin.sequence = found.sequence
		err = v.twin.rewrite(found.content)
	}
	if err == nil && ofSystem(fsys) {
		v.copy, err = makeCopy(fsys, dir, v.twin.record(found.content))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cluster: write term and vote: %w", err), v.Close())
	}
	v.published.Store(v.promised())
	return v, nil
}

// storedVote is the content of a folder's files.
type storedVote struct {
	twin     *twin // nil: `vote` is missing or bad
	sequence uint64
	content  []byte
	none     bool // neither file is there
	bad      []error
}

// readVote reads both files, changes nothing, and returns the newest good content. A missing
// file counts as damaged.
func readVote(fsys wal.FS, dir string) (found storedVote, err error) {
	t, content, copies, err := voteTwin.open(fsys, filepath.Join(dir, voteName))
	missing := errors.Is(err, errNoTwin)
	if err != nil && !missing && !errors.Is(err, ErrDamaged) {
		return found, err
	}
	if err == nil {
		found.twin, found.sequence, found.content = t, t.sequence, content
	}
	record, badCopy := readCopy(fsys, dir)
	if badCopy != nil && err != nil {
		found.none = missing && errors.Is(badCopy, fs.ErrNotExist)
		switch {
		case found.none:
			return found, nil
		case missing:
			return found, fmt.Errorf("%w: %s: missing (%w)", ErrDamaged,
				filepath.Join(dir, voteName), badCopy)
		}
		return found, fmt.Errorf("%w (%w)", err, badCopy)
	}
	for _, bad := range append(copies[:], err, badCopy) {
		if bad != nil && !errors.Is(bad, fs.ErrNotExist) {
			found.bad = append(found.bad, bad)
		}
	}
	if badCopy == nil {
		sequence := binary.LittleEndian.Uint64(record)
		if found.twin == nil || sequence > found.sequence {
			found.sequence, found.content = sequence, record[8:]
		}
	}
	return found, nil
}

// readCopy returns the record of `vote.bolt`.
func readCopy(fsys wal.FS, dir string) ([]byte, error) {
	if !ofSystem(fsys) {
		return nil, fs.ErrNotExist
	}
	record, err := boltfile.Read(filepath.Join(dir, boltName))
	if err == nil && len(record) < 8 {
		err = boltfile.ErrDamaged
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", boltName, err)
	}
	return record, nil
}

// makeCopy recreates `vote.bolt`, so that bbolt maps no file of another process.
func makeCopy(fsys wal.FS, dir string, record []byte) (b *voteCopy, err error) {
	watch := func(_, _ string, operation func() error) error { return operation() }
	if w, ok := fsys.(*watchedFS); ok {
		watch = w.watch
	}
	name := filepath.Join(dir, boltName)
	var f *boltfile.File
	err = watch("create", name, func() error {
		f, err = boltfile.Create(name, record)
		return err
	})
	if err != nil {
		return nil, err
	}
	put := func(record []byte) error {
		return watch("write", name, func() error { return f.Put(record) })
	}
	return &voteCopy{put, f.Close}, nil
}

// ofSystem reports whether fsys is the operating system's. bbolt takes only *os.File, so in the
// memory of simulations there is only `vote`.
func ofSystem(fsys wal.FS) bool {
	if w, ok := fsys.(*watchedFS); ok {
		fsys = w.FS
	}
	return fsys == wal.OS()
}

// record encodes a content for `vote.bolt`.
func (t *twin) record(content []byte) []byte {
	return append(binary.LittleEndian.AppendUint64(nil, t.sequence), content...)
}

// storedTerm is the term in a group's files, which it does not change; 0 if there is none.
func storedTerm(fsys wal.FS, dir string) (term uint64, err error) {
	found, err := readVote(fsys, dir)
	if errors.Is(err, ErrDamaged) {
		return 0, nil // openVote reports it
	}
	if err != nil || found.none {
		return 0, err
	}
	defer func() { err = errors.Join(err, found.twin.close()) }()
	v := &voteFile{values: parseVote(found.content)}
	if term, err = v.GetUint64(termKey); errors.Is(err, errNoValue) {
		return 0, nil
	}
	return term, err
}

// Set stores a value durably. After a failure it stores nothing more: what is on disk is then
// unknown.
func (v *voteFile) Set(key, value []byte) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.failed != nil {
		return fmt.Errorf("cluster: term and vote: refused, an earlier write failed: %w", v.failed)
	}
	before := v.values
	v.values = maps.Clone(before)
	v.values[string(key)] = slices.Clone(value)
	if err := v.writeBoth(v.encode()); err != nil {
		v.values, v.failed = before, err
		return fmt.Errorf("cluster: write term and vote: %w", err)
	}
	if !bytes.Equal(key, voteTermKey) { // for whom comes next
		v.published.Store(v.promised())
	}
	return nil
}

// writeBoth puts content into both files at the same time, and returns when both have it.
func (v *voteFile) writeBoth(content []byte) error {
	if err := voteTwin.fits(content); err != nil {
		return err
	}
	v.twin.sequence++
	if v.copy == nil {
		return v.twin.write(content, 0, 1)
	}
	beside := make(chan error, 1)
	go func() { beside <- v.copy.put(v.twin.record(content)) }()
	err := v.twin.write(content, 0, 1)
	return errors.Join(err, <-beside)
}

// promised decodes term and vote from the values; the caller holds the lock.
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
		return 0, fmt.Errorf("cluster: %s is not a number", key)
	}
	return binary.BigEndian.Uint64(b), nil
}

// Close closes the files.
func (v *voteFile) Close() error {
	err := v.twin.close()
	if v.copy != nil {
		err = errors.Join(err, v.copy.close())
	}
	return err
}

// encode encodes the values.
func (v *voteFile) encode() (content []byte) {
	le := binary.LittleEndian
	for _, key := range slices.Sorted(maps.Keys(v.values)) {
		content = le.AppendUint16(content, uint16(len(key)))
		content = le.AppendUint16(content, uint16(len(v.values[key])))
		content = append(append(content, key...), v.values[key]...)
	}
	return content
}

// parseVote decodes what encode encoded; the copy's checksum was verified before.
func parseVote(content []byte) map[string][]byte {
	le, values := binary.LittleEndian, make(map[string][]byte)
	for rest := content; len(rest) > 0; {
		k, n := int(le.Uint16(rest)), int(le.Uint16(rest[2:]))
		values[string(rest[4:4+k])] = slices.Clone(rest[4+k : 4+k+n])
		rest = rest[4+k+n:]
	}
	return values
}

// termKey is the name under which raft stores its term.
var termKey = []byte("CurrentTerm")

// firstTerm is the term in which the first members are written, before any election.
const firstTerm = 1
