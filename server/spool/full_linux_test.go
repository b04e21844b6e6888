package spool

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// childEnv names the folder for a test binary that is to fill a disk.
const childEnv = "TOLLGATE_SPOOL_TEST_CHILD"

func TestMain(m *testing.M) {
	dir, child := os.LookupEnv(childEnv)
	if !child {
		os.Exit(m.Run())
	}
	if err := fill(dir); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}

// fill appends until no file may grow, then continues when files may grow again.
func fill(dir string) error {
	signal.Ignore(syscall.SIGXFSZ)
	limit := func(bytes uint64) error {
		var l syscall.Rlimit
		err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &l)
		l.Cur = min(bytes, l.Max)
		return errors.Join(err, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &l))
	}
	if err := limit(100_000); err != nil {
		return err
	}
	s, err := Open(dir, Options{Limit: 1 << 30, Log: slog.Default()})
	if err != nil {
		return err
	}
	next, refused := 0, 0
	for refused < 5 {
		if err = s.Append(numbered(next)); err != nil {
			refused++
			continue
		}
		next++
	}
	if !errors.Is(err, syscall.EFBIG) {
		return fmt.Errorf("not full: %w", err)
	}
	if err := limit(1 << 62); err != nil {
		return err
	}
	for range 20 {
		if err := s.Append(numbered(next)); err != nil {
			return err
		}
		next++
	}
	for i := range next {
		got, err := s.Head(nil)
		if err == nil && string(got) != string(numbered(i)) {
			err = fmt.Errorf("block %d is %.20s", i, got)
		}
		if err == nil {
			err = s.Advance()
		}
		if err != nil {
			return err
		}
	}
	fmt.Println("kept", next, s.Empty())
	return s.Close()
}

func numbered(i int) []byte { return []byte(fmt.Sprintf("%06d%s", i, strings.Repeat("x", 1000))) }

// TestADiskThatIsFullCostsNoBlock: a half-written block is an error to its caller, and does not
// shift later writes.
func TestADiskThatIsFullCostsNoBlock(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "spool")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "kept 118 true")
	require.NoFileExists(t, aside(dir))
}
