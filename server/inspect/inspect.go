// Package inspect reads what a product publishes and says what an agent can do with it: collect,
// extract, evaluate, check. See DESIGN.md.
package inspect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tollgate/server/inspect/collect"
	"tollgate/server/inspect/document"
	"tollgate/server/inspect/evaluate"
	"tollgate/server/inspect/extract"
	"tollgate/server/inspect/journey"
	"tollgate/server/inspect/suggest"
)

// How many inspections collect, and extract, at a time: what they hold together is bounded.
const (
	MaxCollecting = 8
	MaxExtracting = 1
)

// An inspection waits MaxWait for its turn, fetches for collect.MaxTime, waits MaxReadWait for its
// turn to read, and reads for MaxReading: MaxTime in all.
const (
	MaxWait     = 5 * time.Second
	MaxReadWait = 10 * time.Second
	MaxReading  = 5 * time.Second
	MaxTime     = MaxWait + collect.MaxTime + MaxReadWait + MaxReading
)

// Errors of Inspect.
var (
	// ErrUnreachable: no fetch came to a 2xx answer with at least one readable byte of body.
	ErrUnreachable = collect.ErrUnreachable
	ErrForbidden   = collect.ErrForbidden
	// ErrBusy: the limit of concurrent inspections is reached.
	ErrBusy = errors.New("inspect: no turn came in time")
)

// Inspector makes inspections. Safe for concurrent use.
type Inspector struct {
	config              collect.Config
	collecting, reading chan struct{}
}

// New makes an inspector over a guarded client. A nil clock is time.Now.
func New(client collect.Fetcher, now func() time.Time) *Inspector {
	return &Inspector{
		config:     collect.Config{Fetcher: client, Now: now},
		collecting: make(chan struct{}, MaxCollecting),
		reading:    make(chan struct{}, MaxExtracting),
	}
}

// Result is what an inspection comes to.
type Result struct {
	Document *document.Document
	// Suggestion is a call that a saved test can be verified by, or why there is none.
	Suggestion suggest.Suggestion
	// Journey is how far an agent would come with the task; nil if there was none.
	Journey *journey.Journey
}

// Inspect reads what a url's host publishes, and where there is a task says how far an agent would
// come with it. It takes its turn: at the limit of concurrent inspections it waits a moment. What
// it has no time to read its document says. The error is ErrForbidden, ErrUnreachable, ErrBusy, the
// context's, or that of a document that cites what was not observed, which is a fault of ours.
func (i *Inspector) Inspect(ctx context.Context, url, task, runID string) (*Result, error) {
	if err := enter(ctx, i.collecting, MaxWait); err != nil {
		return nil, err
	}
	defer func() { <-i.collecting }()
	c, err := collect.Run(ctx, i.config, url, runID)
	if err != nil {
		return nil, err
	}
	if !c.Readable() {
		return nil, ErrUnreachable
	}
	if err = enter(ctx, i.reading, MaxReadWait); err != nil {
		return nil, err
	}
	defer func() { <-i.reading }()
	short, cancel := context.WithTimeout(ctx, MaxReading)
	defer cancel()
	facts := extract.Within(short, c)
	if err = ctx.Err(); err != nil {
		return nil, err
	}
	r := &Result{
		Document: evaluate.Evaluate(facts, runID), Suggestion: suggest.Suggest(facts),
	}
	err = errors.Join(document.Check(r.Document, c.Holds),
		document.CheckCited(r.Document.Observations, &r.Suggestion, c.Holds))
	if task != "" {
		r.Journey = journey.Evaluate(r.Document, task, facts.Elsewhere)
		err = errors.Join(err, document.CheckCited(r.Document.Observations, r.Journey, c.Holds))
	}
	if err != nil {
		return nil, fmt.Errorf("inspect: %s is not kept: %w", runID, err)
	}
	return r, nil
}

// enter waits for a turn. Where none comes in time the error is ErrBusy, or the context's.
func enter(ctx context.Context, turn chan struct{}, maximum time.Duration) error {
	short, cancel := context.WithTimeout(ctx, maximum)
	defer cancel()
	select {
	case turn <- struct{}{}:
		return nil
	case <-short.Done():
		if err := ctx.Err(); err != nil {
			return err
		}
		return ErrBusy
	}
}
