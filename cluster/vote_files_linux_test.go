package cluster

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	ossignal "os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"tollgate/cluster/boltfile"
	"tollgate/wal"
)

// realVote opens the files of a real folder.
func realVote(t *testing.T, dir string) *voteFile {
	t.Helper()
	v, err := openVote(wal.OS(), dir, testLog())
	require.NoError(t, err)
	return v
}

// voteImages are the bytes of `vote` and `vote.bolt` after each of the terms 1 to last.
func voteImages(t *testing.T, dir string, last uint64) (images [][2][]byte) {
	t.Helper()
	v := realVote(t, dir)
	for term := uint64(1); term <= last; term++ {
		require.NoError(t, v.SetUint64(termKey, term))
		images = append(images, votesOf(t, dir))
	}
	require.NoError(t, v.Close())
	return images
}

func votesOf(t *testing.T, dir string) (b [2][]byte) {
	t.Helper()
	for i, name := range []string{voteName, boltName} {
		var err error
		if b[i], err = os.ReadFile(filepath.Join(dir, name)); err != nil {
			require.ErrorIs(t, err, os.ErrNotExist)
		}
	}
	return b
}

// putVotes puts files into a folder; nil: none.
func putVotes(t *testing.T, dir string, b [2][]byte) {
	t.Helper()
	for i, name := range []string{voteName, boltName} {
		path := filepath.Join(dir, name)
		if b[i] == nil {
			require.NoError(t, errors.Join(os.WriteFile(path, nil, 0o600), os.Remove(path)))
			continue
		}
		require.NoError(t, os.WriteFile(path, b[i], 0o600))
	}
}

// voteDamage are ways in which a file is lost, or is the one of before.
func voteDamage(whole, before []byte) map[string][]byte {
	flipped := bytes.Clone(whole)
	for at := range flipped {
		flipped[at] ^= 1 << (at % 8) // in every page and copy
	}
	return map[string][]byte{
		"missing": nil, "empty": {}, "zeroes": make([]byte, len(whole)), "flipped": flipped,
		"cut": whole[:len(whole)/3], "a byte short": whole[:len(whole)-1], "stale": before,
		"another file": []byte(strings.Repeat("another file", 1000)),
	}
}

// Whatever becomes of one of the two files, the other has what was promised last, and both are
// good again. A folder without vote.bolt is one of these cases.
func TestTwoFormatsOfAVoteGuardEachOther(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	images := voteImages(t, dir, 7)
	whole, before := images[6], images[4]
	for file := range whole {
		for name, b := range voteDamage(whole[file], before[file]) {
			damaged := whole
			damaged[file] = b
			putVotes(t, dir, damaged)
			term, err := storedTerm(wal.OS(), dir)
			require.NoError(t, err)
			require.EqualValues(t, 7, term, "file %d, %s: a lost log is missed", file, name)
			v := realVote(t, dir)
			term, err = v.GetUint64(termKey)
			require.NoError(t, err)
			require.EqualValues(t, 7, term, "file %d, %s", file, name)
			require.NoError(t, v.Close())
			require.Equal(t, whole[0], votesOf(t, dir)[0], "file %d, %s", file, name)
			record, err := boltfile.Read(filepath.Join(dir, boltName))
			require.NoError(t, err)
			require.Equal(t, uint64(7), uint64(record[0]), "the sequence")
		}
	}
}

// With no good file the node refuses, and changes nothing.
func TestTwoBadFormatsOfAVoteAreRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	images := voteImages(t, dir, 7)
	for one, a := range voteDamage(images[6][0], nil) {
		for other, b := range voteDamage(images[6][1], nil) {
			if one == "stale" || other == "stale" || one == "a byte short" ||
				other == "a byte short" || a == nil && b == nil {
				continue // that byte leaves the first copy, and is of no page of vote.bolt
			}
			putVotes(t, dir, [2][]byte{a, b})
			if one == "cut" {
				require.NoError(t, os.Truncate(filepath.Join(dir, voteName), twinHeadBytes))
			}
			bad := votesOf(t, dir)
			_, err := openVote(wal.OS(), dir, testLog())
			require.ErrorIs(t, err, ErrDamaged, "%s, %s", one, other)
			require.ErrorContains(t, err, wal.Rejoin)
			require.Equal(t, bad, votesOf(t, dir))
		}
	}
}

// Any single bit of either file, drawn; the package boltfile flips every one of vote.bolt.
func TestAnyBitOfAVoteMayFlip(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	whole := voteImages(t, dir, 7)[6]
	var files [2]*os.File
	for i, name := range []string{voteName, boltName} {
		var err error
		files[i], err = os.OpenFile(filepath.Join(dir, name), os.O_RDWR, 0)
		require.NoError(t, err)
	}
	pick := rand.New(rand.NewPCG(3, 4))
	for range 4000 {
		file := pick.IntN(2)
		at := pick.IntN(len(whole[file]))
		b := whole[file][at]
		_, err := files[file].WriteAt([]byte{b ^ 1<<pick.IntN(8)}, int64(at))
		require.NoError(t, err)
		term, err := storedTerm(wal.OS(), dir)
		require.NoError(t, err)
		require.EqualValues(t, 7, term)
		_, err = files[file].WriteAt([]byte{b}, int64(at))
		require.NoError(t, err)
	}
	require.NoError(t, errors.Join(files[0].Close(), files[1].Close()))
}

// Where vote is newer than vote.bolt, it counts.
func TestTheNewerVoteFileCounts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	images := voteImages(t, dir, 7)
	putVotes(t, dir, [2][]byte{images[6][0], images[2][1]})
	v := realVote(t, dir)
	require.NoError(t, v.SetUint64(termKey, 8))
	require.NoError(t, v.Close())
	require.NoError(t, os.Remove(filepath.Join(dir, voteName)))
	term, err := storedTerm(wal.OS(), dir)
	require.NoError(t, err)
	require.EqualValues(t, 8, term)
}

// The power goes in a Set: any sectors that it wrote may be on disk, those of the second copy only
// once the first is whole. The vote of before counts or the new one; the next start makes both
// files whole, whatever an earlier start left that died on the way.
func TestAnySectorsOfAVote(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	images := voteImages(t, dir, 7)
	pick := rand.New(rand.NewPCG(5, 6))
	some := func(b, after []byte) {
		for at := 0; at < len(b); at += 512 {
			if pick.IntN(2) == 0 {
				copy(b[at:at+512], after[at:])
			}
		}
	}
	seen := make(map[uint64]int)
	for range 300 {
		at := 3 + pick.IntN(3)
		before, after := images[at-1], images[at] // terms at and at+1
		torn := [2][]byte{bytes.Clone(before[0]), bytes.Clone(before[1])}
		step := pick.IntN(4) // in the first copy, between, in the second, done
		switch step {
		case 0:
			some(torn[0][:voteCopyBytes], after[0])
		case 1, 2:
			copy(torn[0][:voteCopyBytes], after[0])
			if step == 2 {
				some(torn[0][voteCopyBytes:], after[0][voteCopyBytes:])
			}
		case 3:
			copy(torn[0], after[0])
		}
		some(torn[1], after[1])
		putVotes(t, dir, torn)
		left := filepath.Join(dir, boltName+".tmp")
		require.NoError(t, os.WriteFile(left, torn[1][:9000], 0o600))
		term, err := storedTerm(wal.OS(), dir)
		require.NoError(t, err)
		require.Contains(t, []uint64{uint64(at), uint64(at + 1)}, term)
		if step > 0 {
			require.EqualValues(t, at+1, term)
		}
		seen[term-uint64(at)]++
		if pick.IntN(10) > 0 {
			continue
		}
		require.NoError(t, realVote(t, dir).Close())
		for _, one := range [][2]bool{{true, false}, {false, true}} { // either file suffices now
			left := votesOf(t, dir)
			for i := range left {
				if !one[i] {
					left[i] = nil
				}
			}
			putVotes(t, dir, left)
			got, err := storedTerm(wal.OS(), dir)
			require.NoError(t, err)
			require.Equal(t, term, got)
			require.NoError(t, realVote(t, dir).Close())
		}
	}
	require.Len(t, seen, 2)
}

// A vote is not answered before both files have it, and none after one of them failed.
func TestAVoteWaitsForBothFiles(t *testing.T) {
	t.Parallel()
	v := realVote(t, t.TempDir())
	put, release := v.copy.put, make(chan struct{})
	v.copy.put = func(record []byte) error { <-release; return put(record) }
	answered := make(chan error)
	go func() { answered <- v.SetUint64(termKey, 1) }()
	select {
	case <-answered:
		t.Fatal("answered")
	case <-time.After(50 * time.Millisecond):
	}
	close(release)
	require.NoError(t, <-answered)
	v.copy.put = func([]byte) error { return errIO }
	require.ErrorIs(t, v.SetUint64(termKey, 2), errIO)
	require.ErrorContains(t, v.SetUint64(termKey, 3), "refused")
	term, err := v.GetUint64(termKey)
	require.NoError(t, err)
	require.EqualValues(t, 1, term)
	require.NoError(t, v.Close())
}

// A process that is killed has kept every vote that it gave.
func TestAKilledProcessHasKeptItsVotes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	given := uint64(0)
	for range 8 {
		cmd := powerChild("vote", dir)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		lines, stop := bufio.NewScanner(out), sync.OnceFunc(func() {
			time.AfterFunc(time.Duration(rand.IntN(30_000))*time.Microsecond, func() {
				_ = cmd.Process.Kill()
			})
		})
		last := given
		for lines.Scan() {
			stop()
			last, err = strconv.ParseUint(lines.Text(), 10, 64)
			require.NoError(t, err, "%s", lines.Text())
		}
		require.Error(t, cmd.Wait(), "it was killed")
		require.Greater(t, last, given)
		given, err = countVotes(dir)
		require.NoError(t, err)
		require.GreaterOrEqual(t, given, last)
		require.LessOrEqual(t, given, last+1)
	}
}

// voteUntilTheEnd gives a vote in term after term, says which, and is killed.
func voteUntilTheEnd(folder string) error {
	term, err := countVotes(folder)
	if err != nil {
		return err
	}
	v, err := openVote(wal.OS(), folder, testLog())
	if err != nil {
		return err
	}
	for {
		term++
		if v.SetUint64(termKey, term) != nil { // no file system any more: it is about to be killed
			time.Sleep(powerWait)
		}
		fmt.Println(term)
	}
}

// countVotes opens a folder and returns the term that each of its files has.
func countVotes(folder string) (uint64, error) {
	v, err := openVote(wal.OS(), folder, testLog())
	if err != nil {
		return 0, err
	}
	term, err := v.GetUint64(termKey)
	if errors.Is(err, errNoValue) {
		err = nil
	}
	return term, errors.Join(err, v.Close())
}

// A disk that is full: the vote is not given, no later one is, and what was given stays.
func TestAFullDiskTakesNoVoteBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	voteImages(t, dir, 7)
	out, err := powerChild("full", dir).CombinedOutput()
	require.NoError(t, err, "%s", out)
	term, err := countVotes(dir)
	require.NoError(t, err)
	require.GreaterOrEqual(t, term, uint64(8))
}

// voteUntilFull votes until no file may grow, which includes to write within vote.bolt; starts like
// that; then looks at what is left.
func voteUntilFull(dir string) error {
	ossignal.Ignore(syscall.SIGXFSZ)
	limit := func(bytes uint64) error {
		var l syscall.Rlimit
		err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &l)
		l.Cur = min(bytes, l.Max)
		return errors.Join(err, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &l))
	}
	v, err := openVote(wal.OS(), dir, testLog())
	if err != nil {
		return err
	}
	err = errors.Join(v.SetUint64(termKey, 8), limit(4096)) // the first copy of `vote`
	if err != nil {
		return err
	}
	if err := v.SetUint64(termKey, 9); !errors.Is(err, syscall.EFBIG) {
		return fmt.Errorf("not full: %w", err)
	}
	if err := v.SetUint64(termKey, 10); err == nil || !strings.Contains(err.Error(), "refused") {
		return fmt.Errorf("not refused: %w", err)
	}
	if _, err := openVote(wal.OS(), dir, testLog()); !errors.Is(err, syscall.EFBIG) {
		return fmt.Errorf("it starts without room: %w", err)
	}
	if term, err := storedTerm(wal.OS(), dir); err != nil || term < 8 {
		return fmt.Errorf("term %d: %w", term, err)
	}
	return limit(1 << 62)
}

// freezeVotes freezes a mounted file system under the files: the watchdog reports both, and no vote
// is given before the disk answers.
func freezeVotes(folder string) error {
	const freeze, thaw = 0xC0045877, 0xC0045878
	hung := make(chan string, 16)
	files := &watchedFS{FS: wal.OS(), limit: 200 * time.Millisecond, notices: fileNotices{
		fatal: func(err error) { hung <- err.Error() },
	}}
	v, err := openVote(files, folder, testLog())
	if err != nil {
		return err
	}
	f, err := os.Open(folder)
	if err != nil {
		return err
	}
	if err := unix.IoctlSetInt(int(f.Fd()), freeze, 0); err != nil {
		return err
	}
	for len(hung) > 0 { // opening the files took long
		<-hung
	}
	given := make(chan error, 1)
	go func() { given <- v.SetUint64(termKey, 1<<40) }()
	var said string
	for said == "" || !strings.Contains(said, boltName) || !strings.Contains(said, voteName+";") {
		select {
		case one := <-hung:
			said += one + ";"
		case err := <-given:
			return fmt.Errorf("a vote was given on a frozen disk: %w", err)
		case <-time.After(10 * time.Second):
			return errors.Join(fmt.Errorf("the watchdog said: %s", said),
				unix.IoctlSetInt(int(f.Fd()), thaw, 0))
		}
	}
	closed := v.copy.close()
	err = errors.Join(unix.IoctlSetInt(int(f.Fd()), thaw, 0), <-given, v.Close(), f.Close())
	if closed == nil {
		return errors.Join(err, errors.New("closed in a write"))
	}
	fmt.Println("frozen:", said)
	return err
}

// BenchmarkElection is what a voter stores in an election: term, term of the vote, candidate.
func BenchmarkElection(b *testing.B) {
	for _, name := range []string{voteName, boltName} {
		b.Run(name, func(b *testing.B) {
			v, err := openVote(wal.OS(), b.TempDir(), testLog())
			require.NoError(b, err)
			if name == voteName { // alone
				require.NoError(b, v.copy.close())
				v.copy = nil
			}
			for term := uint64(1); b.Loop(); term++ {
				require.NoError(b, errors.Join(v.SetUint64(termKey, term),
					v.SetUint64(voteTermKey, term), v.Set(voteCandKey, []byte("node2:7000"))))
			}
			require.NoError(b, v.Close())
		})
	}
}
