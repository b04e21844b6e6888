package torture

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"tollgate/cluster"
	api "tollgate/sdk/go"
)

const (
	// keyMemory is the nodes' budget for idempotency keys in MiB: 6,553 of them stay in memory.
	keyMemory = 1
	// ballast is how many events are recorded before anything else, so that keys leave memory from
	// the beginning on: more than stay there, in a few sealed segments of the journal.
	ballast = 8000
	// ballastAtATime is how many of them are sent in a request.
	ballastAtATime = 500
	// wordy is of how many events that clients count one is as long as it may be, so that the journal
	// seals segments while faults are made, and their keys leave memory, too.
	wordy = 8
)

// longMeta makes a member "meta" of an event, as long as it may be.
func longMeta() string {
	return fmt.Sprintf(`,"meta":{"padding":%q}`, strings.Repeat("x", padding))
}

// loadBallast records events that no check looks at until the end, and waits until the keys of some
// have left memory on every node.
func (l *load) loadBallast(ctx context.Context) error {
	if err := l.sendBallast(ctx, http.StatusCreated); err != nil {
		return err
	}
	for _, p := range l.fleet.nodes {
		for {
			s, err := l.fleet.status(ctx, p)
			if err == nil && len(s.Groups) > 0 && s.Ready {
				if keys := s.Groups[cluster.ShardBilling].Keys; keys != nil && keys.OnDisk > 0 {
					break
				}
			}
			if !pause(ctx, followEvery) {
				return fmt.Errorf("torture: no idempotency key leaves memory on %s: %w", p.id, err)
			}
		}
	}
	return nil
}

// sendBallast sends those events, each of which is to be answered with this status, or with 409
// where an attempt of unknown fate was before it.
func (l *load) sendBallast(ctx context.Context, status int) error {
	var bodies [][]byte
	var names []string
	for i := range ballast {
		name := "ballast-" + strconv.Itoa(i)
		names = append(names, name)
		bodies = append(bodies, fmt.Appendf(nil, `{"eventIdempotencyKey":%q,"eventName":"calls",`+
			`"customerReferenceId":%q,"occurredAt":%q%s}`, name, paddedCustomer, l.occurredAt, longMeta()))
		if len(bodies) < ballastAtATime {
			continue
		}
		if err := l.sendBatch(ctx, bodies, names, status); err != nil {
			return err
		}
		bodies, names = bodies[:0], names[:0]
	}
	return nil
}

// sendBatch sends events in one request; each is to be answered with this status, or 409.
func (l *load) sendBatch(
	ctx context.Context, bodies [][]byte, names []string, status int,
) error {
	if len(bodies) == 0 {
		return nil
	}
	body := append(append([]byte{'['}, bytes.Join(bodies, []byte{','})...), ']')
	for {
		answer, err := l.any.Do(ctx, api.Request{Method: "POST", Path: eventsPath + "/batch", Body: body})
		if err != nil {
			return err
		}
		var got api.BatchResult
		if err = answer.Data(&got); err != nil {
			return err
		}
		busy := false // an event of it was not recorded, or it is not known: it is sent again
		for _, result := range got.Results {
			switch s := result.Status; s {
			case status, http.StatusConflict:
			case http.StatusServiceUnavailable:
				busy = true
			default:
				l.violate(byDuplicates, "the event %s: %d instead of %d", names[result.Index], s, status)
			}
		}
		if !busy || !pause(ctx, time.Second) {
			return ctx.Err()
		}
	}
}

// countKeysOnDisk notes how many keys have left memory.
func (a *auditor) countKeysOnDisk(ctx context.Context) error {
	s, err := a.fleet.status(ctx, a.fleet.nodes[0])
	if err != nil {
		return err
	}
	if keys := s.Groups[cluster.ShardBilling].Keys; keys != nil {
		a.keysOnDisk.Store(keys.OnDisk)
	}
	return nil
}
