package backup

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/iotest"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/journal"
	"tollgate/engine/wire"
	"tollgate/engine/workspace"
)

// sample is a backup of two groups, one with a journal's segments.
type sample struct {
	manifest Manifest
	states   [][]byte
	segments [][]byte
}

func newSample() *sample {
	s := &sample{
		states: [][]byte{bytes.Repeat([]byte("state"), 300_000), []byte("other")},
		segments: [][]byte{
			bytes.Repeat([]byte{1, 2, 3}, 500_000), []byte("second"), []byte("audit"),
		},
	}
	first := Group{
		Shard: 0, Name: "billing", Index: 20, Term: 3, Applied: 19, Hash: 1<<63 + 1, Stamp: 5,
		StateBytes: int64(len(s.states[0])),
	}
	for i, data := range s.segments {
		segment := Segment{Number: uint64(i + 1), Length: uint64(len(data)), Hash: xxhash.Sum64(data)}
		if i == 2 {
			segment.Part, segment.Number = journal.PartAudit, 7
		}
		first.Segments = append(first.Segments, segment)
	}
	s.manifest = Manifest{
		MadeAt: 1_700_000_000_000, Node: "a", Program: "test",
		Groups: []Group{first, {
			Shard: 1, Name: "workspace", Index: 4, Term: 2, Applied: 4,
			StateBytes: int64(len(s.states[1])),
		}},
	}
	return s
}

func (s *sample) write(dst io.Writer) error {
	w, err := NewWriter(dst, &s.manifest)
	if err != nil {
		return err
	}
	for i := range s.manifest.Groups {
		if err := w.State(bytes.NewReader(s.states[i])); err != nil {
			return err
		}
		for j := range s.manifest.Groups[i].Segments {
			if s.manifest.Apart {
				break
			}
			if err := w.Segment(bytes.NewReader(s.segments[j])); err != nil {
				return err
			}
		}
	}
	return w.Close()
}

func (s *sample) bytes(t testing.TB) []byte {
	var b bytes.Buffer
	require.NoError(t, s.write(&b))
	return b.Bytes()
}

func TestWhatWasWrittenIsRead(t *testing.T) {
	s := newSample()
	r, err := NewReader(iotest.HalfReader(bytes.NewReader(s.bytes(t))), nil)
	require.NoError(t, err)
	require.Equal(t, &s.manifest, r.Manifest())
	want := [][]byte{s.states[0], s.segments[0], s.segments[1], s.segments[2], s.states[1]}
	for n, data := range want {
		item, err := r.Next()
		require.NoError(t, err)
		require.Equal(t, n > 0 && n < 4, item.Segment != nil)
		read, err := io.ReadAll(item)
		require.NoError(t, err)
		require.Equal(t, data, read)
	}
	_, err = r.Next()
	require.Equal(t, io.EOF, err)
	require.Equal(t, time.UnixMilli(1_700_000_000_000).UTC(), r.Manifest().Time())
	require.EqualValues(t, 3_000_016, r.Manifest().Bytes())
}

// small is a backup of a few hundred bytes.
func small(t testing.TB) []byte {
	s := newSample()
	s.states[0], s.segments[0] = []byte("state"), []byte("first")
	g := &s.manifest.Groups[0]
	g.StateBytes = 5
	g.Segments[0].Length, g.Segments[0].Hash = 5, xxhash.Sum64(s.segments[0])
	return s.bytes(t)
}

func checkBytes(data []byte) error {
	_, err := Check(bytes.NewReader(data), nil, nil)
	return err
}

// Any file that is not, byte for byte, what a Writer wrote is refused.
func TestDamageIsRefused(t *testing.T) {
	whole := small(t)
	require.NoError(t, checkBytes(whole))
	for n := range whole {
		require.ErrorIs(t, checkBytes(whole[:n]), ErrDamaged, "cut off after %d bytes", n)
		for bit := range 8 {
			changed := bytes.Clone(whole)
			changed[n] ^= 1 << bit
			err := checkBytes(changed)
			require.True(t, errors.Is(err, ErrDamaged) || errors.Is(err, ErrVersion),
				"bit %d of byte %d: %v", bit, n, err)
		}
		require.ErrorIs(t, checkBytes(append(whole[:n:n], whole[n+1:]...)), ErrDamaged,
			"byte %d is gone", n)
	}
	require.ErrorIs(t, checkBytes(append(bytes.Clone(whole), 0)), ErrDamaged, "a byte follows")
	require.ErrorIs(t, checkBytes(append(bytes.Clone(whole), whole...)), ErrDamaged, "twice")
}

// errCut is what a request ends with when its connection does, before an answer.
var errCut = fmt.Errorf("GET: %w", io.EOF)

// TestWhatCouldNotBeReadIsNotDamaged: the file may be whole.
func TestWhatCouldNotBeReadIsNotDamaged(t *testing.T) {
	whole := working(t).bytes(t)
	for n := 0; n < len(whole); n += 7 {
		src := io.MultiReader(bytes.NewReader(whole[:n]), iotest.ErrReader(errCut))
		_, err := Check(src, nil, fresh)
		require.ErrorIs(t, err, errCut, "after %d bytes", n)
		require.NotErrorIs(t, err, ErrDamaged, "after %d bytes", n)
	}
}

// TestSegmentsThatCannotBeReadAreNotProven: a connection that ends as a segment is opened is not
// the end of the backup, and one that ends in it does not damage it. Files are closed.
func TestSegmentsThatCannotBeReadAreNotProven(t *testing.T) {
	s := newSample()
	s.manifest.Apart = true
	data := s.bytes(t)
	for what, opened := range map[string]io.Reader{
		"no answer": nil, "cut": iotest.ErrReader(errCut), "short": bytes.NewReader(s.segments[0][:9]),
	} {
		closed := 0
		_, err := Check(bytes.NewReader(data), func(string) (io.ReadCloser, error) {
			if opened == nil {
				return nil, errCut
			}
			return closing{opened, &closed}, nil
		}, nil)
		require.ErrorContains(t, err, "usage segment 1", what)
		require.Equal(t, what == "short", errors.Is(err, ErrDamaged), what)
		if opened == nil {
			require.NotErrorIs(t, err, io.EOF, "which says at Reader.Next that all was read")
		} else {
			require.Equal(t, 1, closed, what)
		}
	}
}

// closing counts how often a file is closed.
type closing struct {
	io.Reader
	closed *int
}

func (c closing) Close() error {
	*c.closed++
	return nil
}

// frames cuts a backup into its frames, behind the head.
func frames(data []byte) (list [][]byte) {
	for data = data[headBytes:]; len(data) > 0; {
		n := frameHead + int(binary.LittleEndian.Uint32(data[1:])) + frameTail
		list = append(list, data[:n])
		data = data[n:]
	}
	return list
}

func TestFramesInAnotherOrderAreRefused(t *testing.T) {
	whole := small(t)
	list := frames(whole)
	require.Len(t, list, 7, "manifest, 2 states, 3 segments, end")
	for i := range list {
		for j := range list {
			if i == j {
				continue
			}
			changed := bytes.Clone(whole[:headBytes])
			for k := range list {
				switch k {
				case i:
					changed = append(changed, list[j]...)
				case j:
					changed = append(changed, list[i]...)
				default:
					changed = append(changed, list[k]...)
				}
			}
			require.ErrorIs(t, checkBytes(changed), ErrDamaged, "frames %d and %d", i, j)
		}
	}
}

// A frame whose own checksum was made to fit is found by the sum of the whole, or the segment's.
func TestForgedFramesAreRefused(t *testing.T) {
	whole := small(t)
	list := frames(whole)
	for i, frame := range list[:len(list)-1] {
		forged := bytes.Clone(whole)
		at := headBytes
		for _, f := range list[:i] {
			at += len(f)
		}
		body := forged[at : at+len(frame)-frameTail]
		body[len(body)-1] ^= 2 // of the manifest it is the closing bracket
		binary.LittleEndian.PutUint32(forged[at+len(body):], checksum(uint64(i), body))
		require.ErrorIs(t, checkBytes(forged), ErrDamaged, "frame %d", i)
	}
}

func TestSegmentsOfAnotherHashAreRefused(t *testing.T) {
	s := newSample()
	s.manifest.Groups[0].Segments[1].Hash++
	require.ErrorContains(t, checkBytes(s.bytes(t)), "hash of usage segment 2")
}

func TestNewerVersionsAreRefusedByName(t *testing.T) {
	whole := small(t)
	whole[4] = FormatVersion + 1
	err := checkBytes(whole)
	require.ErrorIs(t, err, ErrVersion)
	require.ErrorContains(t, err, "format version 2, this build reads up to 1")
}

// fullDisk takes a number of bytes.
type fullDisk struct{ room int }

func (d *fullDisk) Write(p []byte) (int, error) {
	if len(p) > d.room {
		n := d.room
		d.room = 0
		return n, errors.New("no space left on device")
	}
	d.room -= len(p)
	return len(p), nil
}

func TestWriterSaysWhatItCouldNotWrite(t *testing.T) {
	s := newSample()
	whole := s.bytes(t)
	for room := 0; room < len(whole); room += len(whole) / 9 {
		require.ErrorContains(t, s.write(&fullDisk{room}), "no space left", "room for %d", room)
	}
	require.NoError(t, s.write(&fullDisk{len(whole)}))

	short := newSample()
	short.states[0] = short.states[0][:100]
	require.ErrorContains(t, short.write(io.Discard), "bytes are missing")

	w, err := NewWriter(io.Discard, &newSample().manifest)
	require.NoError(t, err)
	require.ErrorContains(t, w.Close(), "before all was written")
	_, err = NewWriter(io.Discard, &Manifest{})
	require.ErrorIs(t, err, ErrDamaged)
}

// fresh makes an empty machine of a shard.
func fresh(shard uint16) engine.Machine {
	switch shard {
	case 0:
		return billing.New(billing.Config{Shard: 0})
	case 1:
		return workspace.New(workspace.Config{Shard: 1})
	}
	return nil
}

// working is a backup of two real machines, after an entry each.
func working(t testing.TB) *sample {
	s := &sample{manifest: Manifest{MadeAt: 1, Node: "a", Program: "test"}}
	for shard := range uint16(2) {
		m := fresh(shard)
		entry := engine.AppendHeader(nil, shard)
		engine.SetStamp(entry, 1_700_000_000_000)
		record := engine.Record{Kind: engine.KindTick}
		if shard == 0 {
			limits := billing.SetLimits{KeyRetentionMS: 3_600_000, WindowMS: 3_600_000, MaxKeys: 1000}
			record = engine.Record{Kind: billing.KindSetLimits, Payload: wire.Encode(nil, &limits)}
		}
		var out engine.Applied
		require.NoError(t, m.Apply(9, engine.AppendRecord(entry, record), &out))
		fixed, err := m.Snapshot()
		require.NoError(t, err)
		var state bytes.Buffer
		_, err = fixed.WriteTo(&state)
		require.NoError(t, err)
		fixed.Release()
		index, hash := m.StateHash()
		s.states = append(s.states, state.Bytes())
		s.manifest.Groups = append(s.manifest.Groups, Group{
			Shard: shard, Name: fmt.Sprint("group", shard), Index: 11, Term: 2,
			Applied: index, Hash: hash, Stamp: m.Stamp(), StateBytes: int64(state.Len()),
		})
	}
	return s
}

func TestStatesAreDecoded(t *testing.T) {
	check := func(s *sample) error {
		_, err := Check(bytes.NewReader(s.bytes(t)), nil, fresh)
		return err
	}
	require.NoError(t, check(working(t)))
	for what, spoil := range map[string]func(*sample){
		"hash":    func(s *sample) { s.manifest.Groups[0].Hash++ },
		"applied": func(s *sample) { s.manifest.Groups[1].Applied-- },
		"stamp":   func(s *sample) { s.manifest.Groups[0].Stamp++ },
		"state":   func(s *sample) { s.states[0][40] ^= 1 },
		"more": func(s *sample) {
			s.states[1] = append(s.states[1], 0)
			s.manifest.Groups[1].StateBytes++
		},
		"a segment that the state does not list": func(s *sample) {
			s.segments = [][]byte{[]byte("x")}
			s.manifest.Groups[0].Segments = []Segment{{
				Number: 1, Length: 1, Hash: xxhash.Sum64([]byte("x")),
			}}
		},
	} {
		s := working(t)
		spoil(s)
		require.ErrorIs(t, check(s), ErrDamaged, what)
		if len(s.segments) > 0 { // and not because of what is in it
			require.ErrorContains(t, check(s), "lists other segments")
		}
		_, err := Check(bytes.NewReader(s.bytes(t)), nil, nil)
		require.NoError(t, err, "%s: only decoding finds it", what)
	}
	unknown := working(t)
	unknown.manifest.Groups[1].Shard = 2
	require.ErrorIs(t, check(unknown), ErrVersion)
}

// FuzzDamage changes a backup in one place, in any way: it is refused, or it is the same bytes.
func FuzzDamage(f *testing.F) {
	s := working(f)
	whole := s.bytes(f)
	f.Add(uint32(0), uint32(1), []byte{})
	f.Add(uint32(8), uint32(0), []byte{1})
	f.Add(uint32(len(whole)-40), uint32(36), []byte("end"))
	f.Fuzz(func(t *testing.T, at, cut uint32, put []byte) {
		from := int(at) % (len(whole) + 1)
		to := min(len(whole), from+int(cut%4096))
		changed := append(append(bytes.Clone(whole[:from]), put...), whole[to:]...)
		_, err := Check(bytes.NewReader(changed), nil, fresh)
		if bytes.Equal(changed, whole) {
			require.NoError(t, err)
			return
		}
		require.True(t, errors.Is(err, ErrDamaged) || errors.Is(err, ErrVersion), "%v", err)
	})
}

func TestFileHasItsNameOnlyWhenItIsWhole(t *testing.T) {
	s := newSample()
	dir := t.TempDir()
	name := filepath.Join(dir, "x.tgb")
	names := func() (all []string) {
		found, err := os.ReadDir(dir)
		require.NoError(t, err)
		for _, f := range found {
			all = append(all, f.Name())
		}
		return all
	}
	full := errors.New("no space left on device")
	err := WriteFile(name, func(w io.Writer) error {
		require.NoError(t, s.write(w))
		require.Equal(t, []string{"x.tgb.part"}, names())
		return full
	})
	require.ErrorIs(t, err, full)
	require.Empty(t, names())
	require.NoError(t, os.WriteFile(name+".part", []byte("left by a crash"), 0o600))
	require.NoError(t, WriteFile(name, s.write))
	require.Equal(t, []string{"x.tgb"}, names())
	m, err := CheckFile(name, nil, nil)
	require.NoError(t, err)
	require.Equal(t, &s.manifest, m)
	require.ErrorIs(t, WriteFile(name, s.write), ErrExists)
	require.NoError(t, os.Truncate(name, 100))
	_, err = CheckFile(name, nil, nil)
	require.ErrorIs(t, err, ErrDamaged)
	_, err = CheckFile(filepath.Join(dir, "absent"), nil, nil)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorIs(t, WriteFile(filepath.Join(dir, "no", "x"), s.write), os.ErrNotExist)
}
