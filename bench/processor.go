package bench

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
)

// processorTimes is the processor time that the generator and each of the nodes' processes have
// used so far; 0 where it cannot be read.
func (r *Run) processorTimes() []time.Duration {
	times := []time.Duration{0}
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err == nil {
		times[0] = time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	for _, id := range r.Processes {
		times = append(times, processTime(id))
	}
	return times
}

// tick is the unit of times in /proc, which is 10 ms on every Linux that Go runs on.
const tick = 10 * time.Millisecond

// processTime reads utime and stime, fields 14 and 15 of /proc/PID/stat. Field 2, the program's
// name, may hold blanks and ends with the last parenthesis.
func processTime(id int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", id))
	if err != nil {
		return 0
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	var sum time.Duration
	for _, at := range []int{14 - 3, 15 - 3} {
		if at < len(fields) {
			if n, err := strconv.ParseInt(string(fields[at]), 10, 64); err == nil {
				sum += time.Duration(n) * tick
			}
		}
	}
	return sum
}

// cores fills in how many cores were used on the average between two readings.
func (r *Report) cores(before, after []time.Duration) {
	average := func(i int) float64 { return float64(after[i]-before[i]) / float64(r.Elapsed) }
	r.GeneratorCores = average(0)
	r.NodeCores = []float64{}
	for i := 1; i < len(before); i++ {
		r.NodeCores = append(r.NodeCores, average(i))
	}
}
