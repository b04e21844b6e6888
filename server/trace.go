package server

import "time"

// Tracer chooses the requests that are traced, and is told of them.
type Tracer interface {
	// Chooses reports whether a request is traced, by its traceparent header, which may be empty.
	Chooses(parent []byte) bool
	// Traced is told of a request that was chosen, once it is answered. It keeps no part of x.
	Traced(x *Exchange, t *Trace)
}

// Trace says where the time of a request went.
type Trace struct {
	Parent string // the traceparent header
	Began  time.Time
	Took   time.Duration
	Status int
	Steps  []Step
}

// Step is a part of a request that took time.
type Step struct {
	Name  string
	Began time.Time
	Took  time.Duration
}

const (
	traceParent = "Traceparent"
	// maxSteps bounds the steps of one trace.
	maxSteps = 64
)

// trace chooses whether the exchange is traced.
func (t *Table) trace(x *Exchange) {
	if t.config.Tracer == nil {
		return
	}
	if parent := x.Ctx.Request.Header.Peek(traceParent); t.config.Tracer.Chooses(parent) {
		x.trace = &Trace{Parent: string(parent)}
	}
}

// traced tells of an exchange that was answered.
func (t *Table) traced(x *Exchange, began time.Time, took time.Duration) {
	if x.trace != nil {
		x.trace.Began, x.trace.Took, x.trace.Status = began, took, x.status
		t.config.Tracer.Traced(x, x.trace)
	}
}

// StepUnderWay is a step that has begun; of a request that is not traced it is empty.
type StepUnderWay struct {
	of *Trace
	at int
}

// Step begins a step of the request, where it is traced. The answer's End ends it.
func (x *Exchange) Step(name string) StepUnderWay {
	if x.trace == nil {
		return StepUnderWay{}
	}
	return x.trace.begin(name)
}

func (t *Trace) begin(name string) StepUnderWay {
	if len(t.Steps) == maxSteps {
		return StepUnderWay{}
	}
	t.Steps = append(t.Steps, Step{Name: name, Began: time.Now()})
	return StepUnderWay{t, len(t.Steps) - 1}
}

// End ends the step.
func (s StepUnderWay) End() {
	if s.of != nil {
		s.of.end(s.at)
	}
}

func (t *Trace) end(at int) { t.Steps[at].Took = time.Since(t.Steps[at].Began) }
