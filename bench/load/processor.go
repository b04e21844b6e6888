package load

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ProcessUse is what a process, and the processes that it started, used of the machine during the
// measurement: a PostgreSQL's backends are children of the one that was started.
type ProcessUse struct {
	Process
	// Cores is how many they used on the average; Resident the bytes of memory that the process
	// itself held at the end.
	Cores    float64
	Resident uint64
	// Written is how many bytes they had the kernel write to disks, in whole pages.
	Written uint64
}

// Machine is what the machine did for others while something was measured.
type Machine struct {
	// Foreign is how many cores were busy with anything but the harness, what it started, and the
	// system that it measured.
	Foreign float64
	// Steal is the share of its time that a virtual machine wanted and its host gave to others.
	Steal float64
	// Busy is the share of time in which the cores were not idle, for any process.
	Busy float64
}

// Beyond the first two a measurement says more of others than of the system. Beyond the third the
// latency of an open loop is that of a machine which has no core left for the generator either: it
// takes more for a request than the closed loop, which finds many answers at a time.
const (
	maxForeign = 0.2
	maxSteal   = 0.05
	saturation = 0.95
)

// Disturbed says what disturbed a measurement; nothing where it was quiet.
func (m Machine) Disturbed() string {
	var what []string
	if m.Foreign > maxForeign {
		what = append(what, fmt.Sprintf("%.2f foreign cores (at most %.1f)", m.Foreign, maxForeign))
	}
	if m.Steal > maxSteal {
		what = append(what, fmt.Sprintf("%.0f %% steal (at most %.0f)", 100*m.Steal, 100*maxSteal))
	}
	return strings.Join(what, ", ")
}

// worse is the worse of two, in each respect.
func (m Machine) worse(other Machine) Machine {
	return Machine{
		max(m.Foreign, other.Foreign), max(m.Steal, other.Steal), max(m.Busy, other.Busy),
	}
}

// Usage is a reading of what the machine and its processes have used so far; 0 where it cannot be
// read.
type Usage struct {
	at        time.Time
	generator time.Duration
	roots     []spent // of each process that was asked for
	ours      time.Duration
	// Of the whole machine: what was busy, stolen, and all there was.
	busy, stolen, all time.Duration
}

// spent is what a process used so far, with all that it started.
type spent struct {
	time    time.Duration
	written uint64
}

// Read reads what some processes, and the harness, have used so far.
func Read(processes []Process) Usage {
	u := Usage{at: time.Now()}
	var self syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &self); err == nil {
		u.generator = time.Duration(self.Utime.Nano() + self.Stime.Nano())
	}
	u.busy, u.stolen, u.all = machineTime(proc)
	u.roots, u.ours = trees(proc, processes, os.Getpid())
	return u
}

// Since is what the machine did for others since an earlier reading.
func (u Usage) Since(before Usage) (m Machine) {
	if elapsed := u.at.Sub(before.at); elapsed > 0 {
		foreign := (u.busy - before.busy) - (u.ours - before.ours)
		m.Foreign = max(0, float64(foreign)/float64(elapsed))
	}
	if all := u.all - before.all; all > 0 {
		m.Steal = float64(u.stolen-before.stolen) / float64(all)
		m.Busy = float64(u.busy+u.stolen-before.busy-before.stolen) / float64(all)
	}
	return m
}

const (
	proc = "/proc"
	// tick is the unit of times in /proc, which is 10 ms on every Linux that Go runs on.
	tick = 10 * time.Millisecond
)

// stat reads the fields of /proc/PID/stat from the third on. Field 2, the program's name, may hold
// blanks and ends with the last parenthesis.
func stat(proc, id string) [][]byte {
	text, err := os.ReadFile(filepath.Join(proc, id, "stat"))
	if err != nil {
		return nil
	}
	return bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
}

// ticks reads one number of a line of /proc; 0 if there is none.
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

// trees adds up what each of the roots used with all of its descendants, and what they and the
// descendants of self used together. A process belongs to the nearest root above it. The times of
// children that have ended are in their parent's, once it has waited for them, and so is what they
// wrote.
func trees(proc string, roots []Process, self int) (all []spent, ours time.Duration) {
	type process struct {
		parent int
		time   time.Duration
	}
	processes := map[int]process{}
	folders, _ := filepath.Glob(filepath.Join(proc, "[0-9]*"))
	for _, folder := range folders {
		id, err := strconv.Atoi(filepath.Base(folder))
		if err != nil {
			continue
		}
		fields := stat(proc, filepath.Base(folder))
		p := process{parent: int(ticks(fields, 4-3))}
		for at := 14; at <= 17; at++ { // utime, stime, and those of children that were waited for
			p.time += time.Duration(ticks(fields, at-3)) * tick
		}
		processes[id] = p
	}
	all = make([]spent, len(roots))
	for id, p := range processes {
		root := -1
		for above := id; above != 0 && root < 0; above = processes[above].parent {
			for i, r := range roots {
				if r.PID == above {
					root = i
				}
			}
			if root < 0 && above == self {
				root = len(roots)
			}
		}
		if root < 0 {
			continue
		}
		ours += p.time
		if root < len(roots) {
			all[root].time += p.time
			all[root].written += written(proc, id)
		}
	}
	return all, ours
}

// written is what a process had the kernel write to disks, and did not take back.
func written(proc string, id int) uint64 {
	file := filepath.Join(proc, strconv.Itoa(id), "io")
	number := func(name string) uint64 {
		return ticks([][]byte{[]byte(lineOf(file, name))}, 0)
	}
	cancelled := number("cancelled_write_bytes: ")
	return max(number("write_bytes: "), cancelled) - cancelled
}

// processStart is when a process began, field 22, in ticks since boot; 0 when it has ended.
func processStart(id int) uint64 {
	fields := stat(proc, strconv.Itoa(id))
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

// machineTime reads the first line of /proc/stat: user, nice, system, idle, waiting, interrupts,
// soft interrupts and steal. Guests are in user already.
func machineTime(proc string) (busy, stolen, all time.Duration) {
	fields := bytes.Fields([]byte(firstLine(filepath.Join(proc, "stat"))))
	for at := 1; at <= 8; at++ {
		spent := time.Duration(ticks(fields, at)) * tick
		all += spent
		switch at {
		case 4, 5:
		case 8:
			stolen = spent
		default:
			busy += spent
		}
	}
	return busy, stolen, all
}

// use fills in what was used between two readings.
func (r *Report) use(before, after Usage) {
	cores := func(d time.Duration) float64 { return float64(d) / float64(r.Elapsed) }
	r.GeneratorCores = cores(after.generator - before.generator)
	r.Used = []ProcessUse{}
	for i, p := range r.Processes {
		was, is := before.roots[i], after.roots[i]
		r.Used = append(r.Used, ProcessUse{
			p, cores(is.time - was.time), resident(p.PID), is.written - min(was.written, is.written),
		})
	}
	r.Machine = after.Since(before)
}

// Cost is the processor time of a unit, of all processes of the system together, in seconds.
func (r Report) Cost() float64 {
	if r.UnitRate == 0 {
		return 0
	}
	return r.SystemCores() / r.UnitRate
}

// SystemCores is how many cores the system's processes used.
func (r Report) SystemCores() (cores float64) {
	for _, p := range r.Used {
		cores += p.Cores
	}
	return cores
}

// GeneratorShare is the generator's part of the processor time that the measurement used.
func (r Report) GeneratorShare() float64 {
	return r.GeneratorCores / max(r.GeneratorCores+r.SystemCores(), 1e-9)
}

// WrittenEach says how many bytes each process that writes wrote for a unit.
func (r Report) WrittenEach() string {
	var each []string
	for _, p := range r.Used {
		if bytes := float64(p.Written) / float64(max(r.Units, 1)); bytes >= 0.5 {
			each = append(each, fmt.Sprintf("%.0f", bytes))
		}
	}
	if len(each) == 0 {
		return "0"
	}
	return strings.Join(each, "+")
}
