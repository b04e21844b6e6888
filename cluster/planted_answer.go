//go:build planted_answer

package cluster

import (
	"time"

	"tollgate/engine"
)

// impatience is how long the planted leader waits for a majority before it answers without one.
const impatience = 60 * time.Millisecond

// A planted bug that the torture must find: an answer before the commit. The leader has the entry
// on its own disk, and calls that done when the others take long.
func init() {
	decided = func(f flight) error {
		result := make(chan error, 1)
		go func() { result <- f.future.Error() }()
		select {
		case err := <-result:
			return err
		case <-time.After(impatience):
		}
		b := f.batch
		b.index = 1
		b.applied.Results = make([]engine.Result, b.records)
		for i := range b.applied.Results {
			b.applied.Results[i].Outcome = engine.OutcomeDone
		}
		return nil
	}
}
