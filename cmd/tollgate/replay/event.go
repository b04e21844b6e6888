package replay

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	api "tollgate/sdk/go"
)

const (
	eventsPath = "/api/v1/client/events"
	batchPath  = "/api/v1/client/events/batch"
)

var keySuffixes = [EventsPerRow]string{"-req", "-in", "-out"}

// ErrOtherBody means that an idempotency key of the trace was used for another event before: the
// prefix belongs to another trace, or to another number of customers.
var ErrOtherBody = errors.New("this prefix was used for another trace or another number of " +
	"customers; choose another with --prefix")

// codeKeyReused is the error code of a key that came with another body before.
const codeKeyReused = "key_reused"

// appendEvent writes the body of the trace's event n.
func (r *run) appendEvent(dst []byte, n int) []byte {
	i, f := n/EventsPerRow, n%EventsPerRow
	row, of := r.Rows[i], r.customers[i%r.Customers]
	dst = append(dst, `{"eventIdempotencyKey":`...)
	dst = strconv.AppendQuote(dst, r.Prefix+"-"+strconv.Itoa(i)+keySuffixes[f])
	dst = append(dst, `,"eventName":"`+Features[f]+`","featureKey":"`+Features[f]+`"`...)
	dst = append(dst, `,"customerReferenceId":`...)
	dst = strconv.AppendQuote(dst, of.name)
	dst = append(dst, `,"occurredAt":"`+of.createdAt+`"`...)
	switch f {
	case 1:
		dst = strconv.AppendUint(append(dst, `,"usageUnits":`...), row.Context, 10)
	case 2:
		dst = strconv.AppendUint(append(dst, `,"usageUnits":`...), row.Generated, 10)
	}
	return append(dst, `,"meta":{"traceTime":"`+row.Time+`"}}`...)
}

// sender returns a function that sends the events from … to-1 until each is counted or known to
// have been counted before. It is for one goroutine.
func (r *run) sender() func(ctx context.Context, from, to int) error {
	if r.Batch == 0 {
		return r.sendSingle
	}
	var body []byte
	return func(ctx context.Context, from, to int) error {
		ctx, cancel := context.WithTimeout(ctx, r.Patience)
		defer cancel()
		open := make([]int, 0, to-from)
		for n := from; n < to; n++ {
			open = append(open, n)
		}
		for len(open) > 0 {
			body = append(body[:0], '[')
			for _, n := range open {
				body = append(r.appendEvent(body, n), ',')
			}
			body[len(body)-1] = ']'
			var err error
			if open, err = r.sendBatch(ctx, body, open); err != nil {
				return fmt.Errorf("events %d to %d: %w", from, to-1, err)
			}
			if len(open) > 0 { // the node cannot tell what became of these
				if err = r.Client.Pause(ctx); err != nil {
					return fmt.Errorf("events %d to %d: %w", from, to-1, err)
				}
			}
		}
		return nil
	}
}

func (r *run) sendSingle(ctx context.Context, n, _ int) error {
	ctx, cancel := context.WithTimeout(ctx, r.Patience)
	defer cancel()
	answer, err := r.Client.Do(ctx, api.Request{
		Method: "POST", Path: eventsPath, Body: r.appendEvent(nil, n),
	})
	if err != nil {
		return fmt.Errorf("event %d: %w", n, err)
	}
	if err = r.count(answer.Status, answer.Err()); err != nil {
		return fmt.Errorf("event %d: %w", n, err)
	}
	r.latency.add(answer.Elapsed)
	return nil
}

// count notes what became of one event; a refusal is an error.
func (r *run) count(status int, refusal error) error {
	switch status {
	case 200, 201:
		r.counted.Add(1)
	case 409:
		var e *api.Error
		if errors.As(refusal, &e) && e.Code == codeKeyReused {
			return ErrOtherBody
		}
		r.duplicates.Add(1)
	default:
		return refusal
	}
	return nil
}

// sendBatch sends one batch and returns the events that have to be sent again.
func (r *run) sendBatch(ctx context.Context, body []byte, sent []int) ([]int, error) {
	answer, err := r.Client.Do(ctx, api.Request{Method: "POST", Path: batchPath, Body: body})
	if err != nil {
		return nil, err
	}
	var batch api.BatchResult
	if err = answer.Data(&batch); err != nil {
		return nil, err
	}
	if len(batch.Results) != len(sent) {
		return nil, fmt.Errorf("%d results for a batch of %d", len(batch.Results), len(sent))
	}
	again := sent[:0:0]
	for _, result := range batch.Results {
		if result.Index < 0 || result.Index >= len(sent) {
			return nil, fmt.Errorf("result for item %d of %d", result.Index, len(sent))
		}
		n := sent[result.Index]
		if result.Status == 503 || result.Status == 429 {
			again = append(again, n)
			continue
		}
		refusal := &api.Error{Status: result.Status, Code: result.Code, Message: result.Message}
		if err = r.count(result.Status, refusal); err != nil {
			return nil, fmt.Errorf("event %d: %w", n, err)
		}
	}
	r.latency.add(answer.Elapsed)
	return again, nil
}
