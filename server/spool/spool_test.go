package spool

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/wal"
)

// fixture is a spool on real files, and its log.
type fixture struct {
	*Spool
	t    *testing.T
	dir  string
	opts Options
	said *bytes.Buffer
}

// openSpool opens a spool with files of the given size.
func openSpool(t *testing.T, dir string, segment int) *fixture {
	f := &fixture{t: t, dir: dir, said: new(bytes.Buffer)}
	f.opts = Options{Limit: 1 << 20, Segment: segment, Log: slog.New(slog.NewTextHandler(f.said, nil))}
	f.reopen()
	return f
}

func (f *fixture) reopen() {
	f.t.Helper()
	if f.Spool != nil {
		require.NoError(f.t, f.Close())
	}
	var err error
	f.Spool, err = Open(f.dir, f.opts)
	require.NoError(f.t, err)
}

func (f *fixture) append(blocks ...string) {
	f.t.Helper()
	for _, block := range blocks {
		require.NoError(f.t, f.Append([]byte(block)))
	}
}

// drain takes all blocks out.
func (f *fixture) drain() (blocks []string) {
	f.t.Helper()
	for !f.Empty() {
		block, err := f.Head(nil)
		if err != nil {
			continue // the next call repairs it
		}
		blocks = append(blocks, string(block))
		require.NoError(f.t, f.Advance())
	}
	return blocks
}

// files are the names of the files with blocks.
func (f *fixture) files() (names []string) {
	entries, err := os.ReadDir(f.dir)
	require.NoError(f.t, err)
	for _, e := range entries {
		if e.Name() != formatName {
			names = append(names, filepath.Join(f.dir, e.Name()))
		}
	}
	return names
}

// damaged are the bytes that were set aside.
func (f *fixture) damaged() []byte {
	raw, err := os.ReadFile(aside(f.dir))
	if !os.IsNotExist(err) {
		require.NoError(f.t, err)
	}
	return raw
}

func spoil(t *testing.T, name string, change func(data []byte) []byte) {
	t.Helper()
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(name, change(data), 0o600))
}

func TestSpoolCutsWhatWasBeingWritten(t *testing.T) {
	f := openSpool(t, filepath.Join(t.TempDir(), "spool"), 0)
	require.True(t, f.Empty())
	f.append("one", "two")
	require.NoError(t, f.Close())
	name := f.files()[0]
	whole, err := os.ReadFile(name)
	require.NoError(t, err)
	for what, torn := range map[string][]byte{
		"half a length": {200}, "short": {200, 1, 0, 0, 1, 2, 3, 4, 5}, "zeroes": make([]byte, 64),
		"bad checksum": append([]byte{13}, "an other word"...),
	} {
		spoil(t, name, func(data []byte) []byte { return append(data, torn...) })
		f.Spool, err = Open(f.dir, f.opts)
		require.NoError(t, err, what)
		size, blocks := f.Size()
		require.EqualValues(t, 2, blocks, what)
		require.EqualValues(t, len(whole), size, what)
		require.NoError(t, f.Close())
		got, err := os.ReadFile(name)
		require.NoError(t, err)
		require.Equal(t, whole, got, what)
	}
	require.Contains(t, string(f.damaged()), "an other word", "it has the length of a block")

	f.opts.Limit, f.opts.Segment = int64(len(whole))+18, 1 // each block in a file of its own
	f.Spool, err = Open(f.dir, f.opts)
	require.NoError(t, err)
	require.ErrorIs(t, f.Append([]byte("too long")), ErrFull)
	f.append("three")
	for _, want := range []string{"one", "two", "three"} {
		got, err := f.Head(nil)
		require.NoError(t, err)
		require.Equal(t, want, string(got))
		// A process that ends here proposes this block again, and none before its file.
		before, other := f.Spool, filepath.Join(t.TempDir(), "other")
		require.NoError(t, os.CopyFS(other, os.DirFS(f.dir)))
		again, err := Open(other, f.opts)
		require.NoError(t, err)
		got, err = again.Head(nil)
		require.NoError(t, err)
		require.Equal(t, want, string(got))
		require.NoError(t, again.Close())
		require.NoError(t, before.Advance())
	}
	require.True(t, f.Empty())
	_, err = f.Head(nil)
	require.ErrorIs(t, err, ErrEmpty)
	require.NoError(t, f.Close())
}

// TestSpoolSetsDamagedBlocksAside: a block whose bytes changed on disk blocks no other. Blocks
// before and after it are still there, and so are its bytes, in a file of their own.
func TestSpoolSetsDamagedBlocksAside(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	f := openSpool(t, dir, 40)
	rest := []string{"two", "three", "four", "five", "six", "seven"}
	for i := range 9 {
		rest = append(rest, fmt.Sprint("more ", i))
	}
	f.append("one")
	f.append(rest...)
	require.Greater(t, len(f.files()), 4, "the log has two files in memory, and the newest")
	spoil(t, f.files()[0], func(data []byte) []byte { // while it is in use
		return bytes.Replace(data, []byte("one"), []byte("Xne"), 1)
	})
	require.Equal(t, rest, f.drain())
	require.Contains(t, string(f.damaged()), "Xne")
	require.Contains(t, f.said.String(), "blocks of the spool are damaged")
	require.Contains(t, f.said.String(), "blocks=1")

	f.append("eight", "nine", "ten")
	require.NoError(t, f.Close())
	f.said.Reset()
	name := f.files()[0]
	spoil(t, name, func(data []byte) []byte {
		data[0] = 0xff // a length
		return data
	})
	f.Spool = nil
	f.reopen()
	require.Contains(t, f.said.String(), "blocks=1")
	f.append("eleven")
	require.Equal(t, []string{"nine", "ten", "eleven"}, f.drain())
	require.Contains(t, string(f.damaged()), "eight")

	// The log has its newest file in memory; so only the next process reads the disk.
	f.append("twelve")
	require.NoError(t, f.Close())
	require.NoError(t, os.Truncate(f.files()[0], 4))
	f.Spool = nil
	f.reopen()
	require.True(t, f.Empty())
	require.NoError(t, f.Close())
}

// TestEveryFlippedBitCostsOneBlock: wherever a bit of any file flips, all other blocks come out, in
// order, none of them changed, and the damaged bytes are kept.
func TestEveryFlippedBitCostsOneBlock(t *testing.T) {
	made := openSpool(t, filepath.Join(t.TempDir(), "spool"), 20)
	all := []string{"a", "b", "c", "d"}
	made.append(all...)
	require.NoError(t, made.Close())
	for _, name := range made.files() {
		info, err := os.Stat(name)
		require.NoError(t, err)
		for at := range info.Size() {
			t.Run(fmt.Sprint(filepath.Base(name), at), func(t *testing.T) {
				t.Parallel()
				for bit := range 8 {
					flip(t, made.dir, filepath.Base(name), all, at, 1<<bit)
				}
			})
		}
	}
}

func flip(t *testing.T, made, name string, all []string, at int64, mask byte) {
	dir := filepath.Join(t.TempDir(), "spool")
	require.NoError(t, os.CopyFS(dir, os.DirFS(made)))
	spoil(t, filepath.Join(dir, name), func(data []byte) []byte {
		data[at] ^= mask
		return data
	})
	f := openSpool(t, dir, 20)
	f.append("later")
	got := f.drain()
	require.Len(t, got, len(all), "%q", got)
	lost := 0
	for lost < len(all) && got[lost] == all[lost] {
		lost++
	}
	require.Equal(t, append(slices.Delete(slices.Clone(all), lost, lost+1), "later"), got)
	require.NoError(t, f.Close())
}

// TestEveryCutLeavesWholeBlocks: whatever file ends early, the whole blocks and later ones come
// out.
func TestEveryCutLeavesWholeBlocks(t *testing.T) {
	t.Parallel()
	made := openSpool(t, filepath.Join(t.TempDir(), "spool"), 30)
	all := []string{"one", "two", "three", "four", "five"}
	made.append(all...)
	require.NoError(t, made.Close())
	for _, name := range made.files() {
		info, err := os.Stat(name)
		require.NoError(t, err)
		for size := range info.Size() {
			dir := filepath.Join(t.TempDir(), "spool")
			require.NoError(t, os.CopyFS(dir, os.DirFS(made.dir)))
			require.NoError(t, os.Truncate(filepath.Join(dir, filepath.Base(name)), size))
			f := openSpool(t, dir, 30)
			f.append("later")
			got := f.drain()
			require.Equal(t, "later", got[len(got)-1])
			at := 0
			for _, block := range got[:len(got)-1] {
				at = at + slices.Index(all[at:], block) + 1
				require.Positive(t, at, "%q of %q", block, got)
			}
			require.GreaterOrEqual(t, len(got), len(all)-3, "a file has three blocks: %q", got)
			require.NoError(t, f.Close())
		}
	}
}

// TestAFileThatIsLostCostsItsBlocks: files that are gone, out of place or half renamed.
func TestAFileThatIsLostCostsItsBlocks(t *testing.T) {
	all := []string{"one", "two", "three", "four", "five", "six", "seven"}
	for what, c := range map[string]struct {
		do   func(f *fixture)
		want []string
	}{
		"first":  {func(f *fixture) { require.NoError(f.t, os.Remove(f.files()[0])) }, all[2:]},
		"middle": {func(f *fixture) { require.NoError(f.t, os.Remove(f.files()[1])) }, slices.Concat(all[:2], all[4:])},
		"all": {func(f *fixture) {
			for _, name := range f.files() {
				require.NoError(f.t, os.Remove(name))
			}
		}, nil},
		"one that was being written": {func(f *fixture) {
			require.NoError(f.t, os.WriteFile(f.files()[1]+".START.TEMP", []byte("xy"), 0o600))
		}, all},
		"a cut that was not finished": {func(f *fixture) {
			require.NoError(f.t, os.Rename(f.files()[1], f.files()[1]+startExt))
		}, all},
		"a cut file, and its original": {func(f *fixture) {
			old := f.files()[1]
			data, err := os.ReadFile(old)
			require.NoError(f.t, err)
			require.NoError(f.t, os.WriteFile(filepath.Join(f.dir, fmt.Sprintf("%020d", 4)+startExt),
				data[len(data)/2:], 0o600))
		}, all},
		"a new folder that was not finished": {func(f *fixture) {
			require.NoError(f.t, os.CopyFS(f.dir+".new.tmp", os.DirFS(f.dir)))
		}, all},
		"a new folder, and half of the old one": {func(f *fixture) {
			require.NoError(f.t, os.CopyFS(f.dir+".new", os.DirFS(f.dir)))
			require.NoError(f.t, os.Remove(filepath.Join(f.dir, formatName)))
			require.NoError(f.t, os.Remove(f.files()[1]))
		}, all},
		"a folder without its name for what it is": {func(f *fixture) {
			require.NoError(f.t, os.RemoveAll(f.dir))
			require.NoError(f.t, os.Mkdir(f.dir, 0o700))
		}, nil},
	} {
		t.Run(what, func(t *testing.T) {
			f := openSpool(t, filepath.Join(t.TempDir(), "spool"), 30)
			f.append(all...)
			require.NoError(t, f.Close())
			require.Greater(t, len(f.files()), 3)
			c.do(f)
			f.Spool = nil
			f.reopen()
			f.append("later")
			require.Equal(t, append(slices.Clone(c.want), "later"), f.drain())
			for range 3 {
				f.append("again")
				f.reopen()
				require.Equal(t, []string{"again"}, f.drain())
			}
			for _, leftover := range []string{".new", ".new.tmp"} {
				require.NoDirExists(t, f.dir+leftover)
			}
			require.NoError(t, f.Close())
		})
	}
}

// TestASpoolOfAnotherFormatIsRefused: foreign files are not touched.
func TestASpoolOfAnotherFormatIsRefused(t *testing.T) {
	for what, make := range map[string]func(dir string) error{
		"a file": func(dir string) error { return os.WriteFile(dir, []byte("TGSPOOL1........"), 0o600) },
		"a folder of another kind": func(dir string) error {
			return os.CopyFS(dir, os.DirFS("."))
		},
		"a later format": func(dir string) error {
			err := os.Mkdir(dir, 0o700)
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, formatName), []byte("tollgate spool 3\n"), 0o600)
			}
			return err
		},
		"a foreign file": func(dir string) error {
			s, err := Open(dir, Options{Limit: 100})
			if err == nil {
				err = s.Close()
			}
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, "notes.txt"), nil, 0o600)
			}
			return err
		},
	} {
		dir := filepath.Join(t.TempDir(), "spool")
		require.NoError(t, make(dir), what)
		before, err := os.Stat(dir)
		require.NoError(t, err)
		_, err = Open(dir, Options{Limit: 100})
		require.ErrorIs(t, err, ErrForeign, what)
		after, err := os.Stat(dir)
		require.NoError(t, err)
		require.Equal(t, before.ModTime(), after.ModTime(), what)
	}
}

// TestFilesAreDroppedAsBlocksAre: a spool that is never empty does not grow.
func TestFilesAreDroppedAsBlocksAre(t *testing.T) {
	f := openSpool(t, filepath.Join(t.TempDir(), "spool"), 1000)
	f.append("ahead")
	block := string(bytes.Repeat([]byte("b"), 100))
	for range 200 {
		f.append(block)
		_, err := f.Head(nil)
		require.NoError(t, err)
		require.NoError(t, f.Advance())
		require.LessOrEqual(t, len(f.files()), 3)
	}
	require.Equal(t, []string{block}, f.drain())
	total := int64(0)
	for _, name := range f.files() {
		info, err := os.Stat(name)
		require.NoError(t, err)
		total += info.Size()
	}
	require.Zero(t, total, "a drained spool is empty")
	require.NoError(t, f.Close())
}

// TestAnErrorOpensTheFilesAgain: after an operation that failed, the log would write the next block
// in the wrong place.
func TestAnErrorOpensTheFilesAgain(t *testing.T) {
	for what, fail := range map[string]func(f *fixture) error{
		"closed under it": func(f *fixture) error { return f.log.Close() },
		"a panic":         func(f *fixture) error { f.log = new(wal.Log); return nil },
		"half of a write": func(f *fixture) error { return f.tearAppend() },
		"a failed sync":   func(f *fixture) error { f.rewrite = true; return f.log.Close() },
	} {
		f := openSpool(t, filepath.Join(t.TempDir(), "spool"), 50)
		f.append("one", "two", "three")
		_, err := f.Head(nil)
		require.NoError(t, err)
		require.NoError(t, fail(f), what)
		if f.Append([]byte("four")) != nil {
			f.append("four")
		}
		require.NoError(t, f.Advance()) // of what Head has shown, unless it was repaired since
		got := f.drain()
		require.Equal(t, []string{"two", "three", "four"}, got[len(got)-3:], what)
		f.append("five")
		f.reopen()
		require.Equal(t, []string{"five"}, f.drain(), what)
		require.NoError(t, f.Close())
	}
}

// tearAppend leaves half a record at the end of the newest file and closes the log, as a disk that
// is full does.
func (f *fixture) tearAppend() error {
	names := f.files()
	file, err := os.OpenFile(names[len(names)-1], os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if _, err = file.Write(append([]byte{200, 1}, "half"...)); err != nil {
		return err
	}
	if err = file.Close(); err != nil {
		return err
	}
	return f.log.Close()
}

// TestWhatIsNotKeptIsSaid: where the file for damage is full, damaged bytes are dropped, and the
// report says so.
func TestWhatIsNotKeptIsSaid(t *testing.T) {
	f := openSpool(t, filepath.Join(t.TempDir(), "spool"), 0)
	f.append("one", "two")
	require.NoError(t, f.Close())
	name, room := f.files()[0], make([]byte, segmentBytes-5)
	require.NoError(t, os.WriteFile(aside(f.dir), room, 0o600))
	spoil(t, name, func(data []byte) []byte { return append(data[:len(data)-1], 'X') })
	f.Spool = nil
	f.reopen()
	require.Contains(t, f.said.String(), "blocks=1 bytes=16 kept_bytes=0")
	require.Equal(t, room, f.damaged())
	require.Equal(t, []string{"one"}, f.drain())
	require.NoError(t, f.Close())
}
