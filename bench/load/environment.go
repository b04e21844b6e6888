package load

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// Environment is where a measurement was made.
type Environment struct {
	At     time.Time
	Cores  int
	CPU    string
	Kernel string
	// MemoryBytes is the machine's.
	MemoryBytes uint64
	// LoadBefore is the load average of the last minute before the harness began.
	LoadBefore string
	// Sync is how long an append of 4 KiB with fsync takes in the folder of temporary files, where
	// the systems keep theirs: the median and the slowest of a hundred.
	Sync, SlowestSync time.Duration
	Go, Commit        string
}

const syncTries = 100

// Surroundings looks around.
func Surroundings() (Environment, error) {
	e := Environment{
		At: time.Now().UTC().Truncate(time.Second), Cores: runtime.NumCPU(), Go: runtime.Version(),
		Kernel: firstLine("/proc/sys/kernel/osrelease"), Commit: "unknown",
	}
	e.LoadBefore, _, _ = strings.Cut(firstLine("/proc/loadavg"), " ")
	e.CPU = strings.TrimSpace(lineOf("/proc/cpuinfo", "model name\t:"))
	if kib := lineOf("/proc/meminfo", "MemTotal:"); kib != "" {
		e.MemoryBytes = ticks(bytes.Fields([]byte(kib)), 0) << 10
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				e.Commit = setting.Value
			}
		}
	}
	var err error
	e.Sync, e.SlowestSync, err = syncLatency()
	return e, err
}

// FreeMemory is what programs could still take of the machine's memory, in bytes.
func FreeMemory() uint64 {
	return ticks(bytes.Fields([]byte(lineOf("/proc/meminfo", "MemAvailable:"))), 0) << 10
}

func firstLine(file string) string { return lineOf(file, "") }

// lineOf is what follows the first occurrence of a line's beginning; empty where it is not there.
func lineOf(file, begin string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, begin); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

func syncLatency() (middle, slowest time.Duration, err error) {
	file, err := os.CreateTemp("", "tollgate-bench-")
	if err != nil {
		return 0, 0, fmt.Errorf("fsync: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
	times := make([]time.Duration, 0, syncTries)
	page := make([]byte, 4096)
	for range syncTries {
		begin := time.Now()
		if _, err = file.Write(page); err == nil {
			err = file.Sync()
		}
		if err != nil {
			return 0, 0, fmt.Errorf("fsync: %w", err)
		}
		times = append(times, time.Since(begin))
		slowest = max(slowest, times[len(times)-1])
	}
	return median(times), slowest, nil
}
