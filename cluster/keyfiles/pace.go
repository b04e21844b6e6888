package keyfiles

import (
	"context"
	"time"
)

const (
	// paceBytes is after how much work a rewriting rests.
	paceBytes = syncBytes
	// paceRest is how many times as long as it worked it rests: it takes a quarter of the disk and
	// of a core at most.
	paceRest = 3
	// paceMost bounds one rest, where the disk is slow.
	paceMost = 2 * time.Second
	// hurryFiles is from how many files on a rewriting does not rest: each search asks all of them.
	hurryFiles = 32
)

// pace slows background work, so that others get the disk; nil does not.
type pace struct {
	ctx   context.Context
	hurry func() bool
	since time.Time
	done  int
}

func (s *Store) newPace(ctx context.Context) *pace {
	hurry := func() bool { return len(s.view.Load().runs) >= hurryFiles }
	return &pace{ctx: ctx, hurry: hurry, since: time.Now()}
}

// did notes bytes that were read or written, and rests when it is time. It returns an error when
// the work is to end.
func (p *pace) did(bytes int) error {
	if p == nil {
		return nil
	}
	if err := p.ctx.Err(); err != nil {
		return err
	}
	if p.done += bytes; p.done < paceBytes {
		return nil
	}
	p.done = 0
	if !p.hurry() {
		rest := time.NewTimer(min(paceRest*time.Since(p.since), paceMost))
		defer rest.Stop()
		select {
		case <-rest.C:
		case <-p.ctx.Done():
		}
	}
	p.since = time.Now()
	return p.ctx.Err()
}
