package load

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
)

// ProcessUse is what a process used of the machine during the measurement.
type ProcessUse struct {
	Process
	// Cores is how many it used on the average; Resident the bytes of memory it held at the end.
	Cores    float64
	Resident uint64
}

// usage is a reading of processor times: of the generator, of each of the system's processes, and
// of the whole machine; 0 where it cannot be read.
type usage struct {
	generator, machine time.Duration
	processes          []time.Duration
}

func (r *Run) usage() usage {
	u := usage{machine: machineTime()}
	var self syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &self); err == nil {
		u.generator = time.Duration(self.Utime.Nano() + self.Stime.Nano())
	}
	for _, p := range r.Processes {
		u.processes = append(u.processes, processTime(p.PID))
	}
	return u
}

// tick is the unit of times in /proc, which is 10 ms on every Linux that Go runs on.
const tick = 10 * time.Millisecond

// stat reads the fields of /proc/PID/stat from the third on. Field 2, the program's name, may hold
// blanks and ends with the last parenthesis.
func stat(id int) [][]byte {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", id))
	if err != nil {
		return nil
	}
	return bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
}

// ticks reads one number of a line of /proc; 0 where there is none.
func ticks(fields [][]byte, at int) uint64 {
	if at >= len(fields) {
		return 0
	}
	n, err := strconv.ParseUint(string(fields[at]), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// processTime is utime and stime, fields 14 and 15.
func processTime(id int) time.Duration {
	fields := stat(id)
	return time.Duration(ticks(fields, 14-3)+ticks(fields, 15-3)) * tick
}

// processStart is when a process began, field 22, in ticks since boot; 0 when it has ended.
func processStart(id int) uint64 {
	fields := stat(id)
	if len(fields) == 0 || fields[0][0] == 'Z' {
		return 0
	}
	return ticks(fields, 22-3)
}

// resident is the memory that a process holds, in bytes.
func resident(id int) uint64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", id))
	if err != nil {
		return 0
	}
	return ticks(bytes.Fields(text), 1) * uint64(os.Getpagesize())
}

// machineTime is what all processes of the machine used: the first line of /proc/stat without idle
// and waiting, its fourth and fifth number, and without guests, which are in user already.
func machineTime() time.Duration {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	fields := bytes.Fields(line)
	var sum uint64
	for _, at := range []int{1, 2, 3, 6, 7} {
		sum += ticks(fields, at)
	}
	return time.Duration(sum) * tick
}

// use fills in what was used between two readings.
func (r *Report) use(before, after usage) {
	cores := func(d time.Duration) float64 { return float64(d) / float64(r.Elapsed) }
	r.GeneratorCores = cores(after.generator - before.generator)
	rest := after.machine - before.machine - (after.generator - before.generator)
	r.Used = []ProcessUse{}
	for i, p := range r.Processes {
		used := after.processes[i] - before.processes[i]
		rest -= used
		r.Used = append(r.Used, ProcessUse{p, cores(used), resident(p.PID)})
	}
	r.OtherCores = max(0, cores(rest))
}
