package torture

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// report is what is known of a run: what was done, how often, and which promises were broken.
type report struct {
	Options
	begun time.Time
	fail  context.CancelFunc // ends the run

	acknowledged, duplicates, limited, unknown, refused atomic.Uint64
	voided, amended, reserved, raced                    atomic.Uint64
	reads, followerReads, staleReads                    atomic.Uint64
	counters                                            atomic.Int64
	keysOnDisk                                          atomic.Uint64

	mu         sync.Mutex
	faults     map[string]int
	violations []Violation
}

// clock is the time since the run began, in nanoseconds.
func (r *report) clock() int64 { return int64(time.Since(r.begun)) }

// phase tells what begins now.
func (r *report) phase(name string) { r.Say("%6.1fs %s", time.Since(r.begun).Seconds(), name) }

// made counts a fault.
func (r *report) made(fault string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults[fault]++
}

// tally counts an answer.
func (r *report) tally(o outcome) {
	switch o {
	case counted, atLimit:
		r.acknowledged.Add(1)
	case duplicate:
		r.duplicates.Add(1)
	case overLimit:
		r.limited.Add(1)
	case unknown:
		r.unknown.Add(1)
	case voided:
		r.voided.Add(1)
	case amended:
		r.amended.Add(1)
	}
}

// violate notes a broken promise and ends the run. With AnswersOnly, what a check from inside found
// is said and goes no further.
func (r *report) violate(by check, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := Violation{by.name, fmt.Sprintf(format, args...)}
	if by.inside && r.AnswersOnly {
		r.Say("set aside, as no client sees it: %s", v)
		return
	}
	r.Say("VIOLATION: %s", v)
	if len(r.violations) < maxViolations {
		r.violations = append(r.violations, v)
	}
	r.fail()
}

// maxViolations is how many are kept.
const maxViolations = 10

// brokenPromises is nil if none is known.
func (r *report) brokenPromises() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.violations) == 0 {
		return nil
	}
	var problems []error
	for _, v := range r.violations {
		problems = append(problems, errors.New(v.String()))
	}
	return errors.Join(problems...)
}
