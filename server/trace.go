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

// Step begins a step of the request, where it is traced; the answer ends it.
func (x *Exchange) Step(name string) (end func()) {
	t := x.trace
	if t == nil || len(t.Steps) == maxSteps {
		return untraced
	}
	at := len(t.Steps)
	t.Steps = append(t.Steps, Step{Name: name, Began: time.Now()})
	return func() { t.Steps[at].Took = time.Since(t.Steps[at].Began) }
}

func untraced() {}
