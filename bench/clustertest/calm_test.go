package clustertest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// calm collects how long requests take in stretches in which no leader is killed, and what others
// use of the machine meanwhile: a latency says something of the cluster on a quiet machine only.
type calm struct {
	mu      sync.Mutex
	stretch int // odd while there is a stretch
	took    []time.Duration
	// every has how long all requests took until they were answered, through elections, too.
	every []time.Duration
	// all, ours and stolen are of the machine's processor time in the stretches.
	all, ours, idle, stolen uint64
}

// asked notes a request that was sent in a stretch, if that still lasts.
func (c *calm) asked(stretch int, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if stretch == c.stretch && c.lasts(stretch) {
		c.took = append(c.took, took)
	}
}

// answered notes a request that was answered, whatever happened meanwhile.
func (c *calm) answered(took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.every = append(c.every, took)
}

// lasts reports whether a number is that of a stretch.
func (*calm) lasts(stretch int) bool { return stretch%2 == 1 }

// now is the number of the stretch, or of what is between two.
func (c *calm) now() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stretch
}

// during is a stretch: for as long as wait takes.
func (c *calm) during(processes []int, wait func()) {
	turn := func() {
		c.mu.Lock()
		c.stretch++
		c.mu.Unlock()
	}
	all, idle, stolen := machineTicks()
	ours := ticksOf(processes)
	turn()
	wait()
	turn()
	allAfter, idleAfter, stolenAfter := machineTicks()
	c.all += allAfter - all
	c.idle += idleAfter - idle
	c.stolen += stolenAfter - stolen
	c.ours += ticksOf(processes) - ours
}

// quiet reports whether others used less than a tenth of the machine, and its host no more than a
// twentieth. False where that cannot be read.
func (c *calm) quiet() bool {
	foreign := int64(c.all) - int64(c.idle) - int64(c.stolen) - int64(c.ours)
	return c.all > 0 && foreign*10 <= int64(c.all) && c.stolen*20 <= c.all
}

// quickDisk reports whether each of 50 small writes is durable within 3 ms: requests wait for three
// of them, which the disk may keep waiting while the processors are idle.
func quickDisk(t *testing.T) bool {
	file, err := os.Create(filepath.Join(t.TempDir(), "sync"))
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	for range 50 {
		begun := time.Now()
		_, err = file.Write(make([]byte, 4096))
		require.NoError(t, err)
		require.NoError(t, file.Sync())
		if time.Since(begun) > 3*time.Millisecond {
			return false
		}
	}
	return true
}

// p99 is what 99 in 100 requests of a stretch took at most.
func (c *calm) p99() time.Duration { return p99(c.took) }

func p99(took []time.Duration) time.Duration {
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return took[len(took)*99/100]
}

func (c *calm) String() string {
	share := func(n uint64) float64 { return 100 * float64(n) / float64(max(c.all, 1)) }
	return fmt.Sprintf("p99 of %d requests outside elections %s, of %d with elections, at full speed, "+
		"%s until answered; of the machine %.0f %% ours, %.0f %% idle, %.0f %% stolen", len(c.took),
		c.p99(), len(c.every), p99(c.every), share(c.ours), share(c.idle), share(c.stolen))
}

// machineTicks is the processor time that the machine had so far, what of it was idle, and what its
// host gave to others; zeros where it cannot be read.
func machineTicks() (all, idle, stolen uint64) {
	text, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(text), "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 {
		return 0, 0, 0
	}
	for i, field := range fields[1:9] { // what guests use is part of user's
		n, _ := strconv.ParseUint(field, 10, 64)
		all += n
		switch i {
		case 3, 4: // idle, and waiting for a disk
			idle += n
		case 7:
			stolen = n
		}
	}
	return all, idle, stolen
}

// ticksOf is the processor time that processes have used, this one too.
func ticksOf(processes []int) (sum uint64) {
	for _, pid := range append([]int{os.Getpid()}, processes...) {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		_, rest, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(rest)
		if len(fields) < 13 {
			continue
		}
		user, _ := strconv.ParseUint(fields[11], 10, 64)
		system, _ := strconv.ParseUint(fields[12], 10, 64)
		sum += user + system
	}
	return sum
}
