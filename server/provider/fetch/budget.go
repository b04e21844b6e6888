package fetch

import (
	"context"
	"sync"
	"time"
)

// Limits of one inspection's fetches.
const (
	BudgetFetches  = 40
	BudgetParallel = 4
	BudgetTime     = 60 * time.Second
)

// Budget bounds the fetches of one job: their number, their concurrency, and their total time.
// Every hop of a followed redirect is a fetch. Safe for concurrent use.
type Budget struct {
	slots    chan struct{}
	deadline time.Time

	mu   sync.Mutex
	left int
}

// NewBudget starts a budget whose time begins now. Each argument must be positive.
func NewBudget(fetches, parallel int, total time.Duration) *Budget {
	return &Budget{
		slots:    make(chan struct{}, parallel),
		deadline: time.Now().Add(total),
		left:     fetches,
	}
}

// Left is the number of fetches not yet begun.
func (b *Budget) Left() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.left
}

// within returns a context that ends with the budget.
func (b *Budget) within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithDeadline(ctx, b.deadline)
}

// enter waits for a slot and takes one fetch; leave gives the slot back.
func (b *Budget) enter(ctx context.Context, host string) error {
	select {
	case b.slots <- struct{}{}:
	case <-ctx.Done():
		return b.refuse(host, "its time is over")
	}
	if !time.Now().Before(b.deadline) {
		b.leave()
		return b.refuse(host, "its time is over")
	}
	b.mu.Lock()
	spent := b.left == 0
	if !spent {
		b.left--
	}
	b.mu.Unlock()
	if spent {
		b.leave()
		return b.refuse(host, "all its fetches were made")
	}
	return nil
}

func (b *Budget) leave() { <-b.slots }

func (b *Budget) refuse(host, why string) error {
	return &Refusal{Rule: RuleBudget, Host: host, Detail: why}
}
