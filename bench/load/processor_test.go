package load

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// procfs is a /proc of some processes.
type procfs struct {
	t      *testing.T
	folder string
}

// process has used so many ticks, of which its children that ended used some, and has written.
func (p procfs) process(id, parent, ticks, children, written, cancelled int) {
	folder := filepath.Join(p.folder, fmt.Sprint(id))
	require.NoError(p.t, os.MkdirAll(folder, 0o700))
	stat := fmt.Sprintf("%d (a ) b) S %d 1 1 0 -1 4194560 1 2 3 4 %d %d %d %d 20 0 1 0 77 0\n", id,
		parent, ticks/2, ticks-ticks/2, children/2, children-children/2)
	require.NoError(p.t, os.WriteFile(filepath.Join(folder, "stat"), []byte(stat), 0o600))
	io := fmt.Sprintf("rchar: 9\nwchar: 9999\nwrite_bytes: %d\ncancelled_write_bytes: %d\n", written,
		cancelled)
	require.NoError(p.t, os.WriteFile(filepath.Join(folder, "io"), []byte(io), 0o600))
}

// TestProcessesAreCountedWithTheirChildren: a server's backends count as the server, those that
// have ended included; processes that the harness did not start are foreign.
func TestProcessesAreCountedWithTheirChildren(t *testing.T) {
	p := procfs{t, t.TempDir()}
	p.process(1, 0, 1000, 500, 7, 0)
	p.process(10, 1, 30, 5, 999, 0)    // the harness
	p.process(11, 10, 2, 0, 0, 0)      // `tollgate dev`, say
	p.process(20, 11, 100, 50, 800, 8) // a server
	p.process(21, 20, 10, 0, 4096, 0)  // its backends
	p.process(22, 21, 1, 0, 4096, 96)
	p.process(30, 1, 400, 0, 5000, 0) // a server that was not started here
	p.process(40, 1, 9000, 0, 0, 0)   // somebody else's
	all, ours := trees(p.folder, []Process{{"a", 20}, {"b", 30}, {"gone", 99}}, 10)
	require.Equal(t, []spent{{161 * tick, 792 + 4096 + 4000}, {400 * tick, 5000}, {}}, all)
	require.Equal(t, (30+5+2+161+400)*tick, ours)
}

// TestForeignLoadAndSteal: the machine's busy time without ours, and what its host took.
func TestForeignLoadAndSteal(t *testing.T) {
	folder := t.TempDir()
	reading := func(at time.Time, ours time.Duration, line string) Usage {
		require.NoError(t, os.WriteFile(filepath.Join(folder, "stat"), []byte(line+"\ncpu0 1\n"), 0o600))
		u := Usage{at: at, ours: ours}
		u.busy, u.stolen, u.all = machineTime(folder)
		return u
	}
	begin := time.Now()
	before := reading(begin, time.Second, "cpu  100 10 20 5000 30 1 2 40 7 0")
	// A second of two cores: 120 ticks busy, of which 100 are ours, 60 idle, 10 waiting, 10 stolen.
	after := reading(begin.Add(time.Second), 2*time.Second, "cpu  180 20 40 5060 40 4 9 50 9 0")
	m := after.Since(before)
	require.InDelta(t, 0.2, m.Foreign, 1e-9)
	require.InDelta(t, 0.05, m.Steal, 1e-9)
	require.InDelta(t, 0.65, m.Busy, 1e-9)
	require.Empty(t, m.Disturbed(), "both are allowed to that point")
	m = Machine{0.21, 0.01, 1}.worse(Machine{0.1, 0.06, 0})
	require.Equal(t, "0.21 foreign cores (at most 0.2), 6 % steal (at most 5)", m.Disturbed())
}

// TestCostIsOfAllProcesses: server time per request counts every process of the system, and the
// generator's share is reported separately.
func TestCostIsOfAllProcesses(t *testing.T) {
	r := Report{UnitRate: 20_000, Units: 1000, GeneratorCores: 0.25, Used: []ProcessUse{
		{Process{"node1", 1}, 0.5, 0, 212_000},
		{Process{"node2", 2}, 0.15, 0, 99_600},
		{Process{"front", 3}, 0.1, 0, 4},
	}}
	require.InDelta(t, 37.5e-6, r.Cost(), 1e-12)
	require.InDelta(t, 0.25, r.GeneratorShare(), 1e-9)
	require.Equal(t, "212+100", r.WrittenEach())
	require.Zero(t, Report{}.Cost())
}
