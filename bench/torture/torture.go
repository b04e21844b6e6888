// Package torture runs a cluster of real node processes through faults of every kind while clients
// work with it, and proves from what the clients saw that it kept its promises: nothing
// acknowledged is lost, nothing is counted twice, limits hold exactly, no linearizable read is
// stale, credits add up, and every node comes to the same state.
package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	api "tollgate/sdk/go"
)

// Options say what is run.
type Options struct {
	// Program is the tollgate binary, built with the tag stepped_clock; Dir an empty folder for the
	// cluster's data.
	Program, Dir string
	// Namespaces: nodes run in network namespaces (see faultnet.Enclose), not behind proxies.
	Namespaces bool
	// For is how long faults are made; starting and the last checks come on top.
	For time.Duration
	// Seed decides the faults and what clients do. What comes of it depends on the machine, too.
	Seed uint64
	// Kinds are the names of the faults that are made; none are all.
	Kinds []string
	// AnswersOnly: checks that look into the nodes (see check) end nothing and count for nothing.
	AnswersOnly bool
	// Say is told what happens, a line at a time; nil where no one listens.
	Say func(format string, args ...any)
}

// Least is what a run must have done in ten minutes to prove anything.
var Least = Summary{
	Acknowledged: 10_000, FollowerReads: 1_000, LeaderChanges: 5, Amended: 500, Reserved: 200,
	Bought: 20,
}

// Summary is what happened.
type Summary struct {
	Acknowledged, Duplicates, Limited, Unknown, Refused uint64
	Voided, Amended                                     uint64 // events taken back, and amended
	Reserved, Raced                                     uint64 // reservations; ends at once
	Bought                                              int    // automatic purchases that were paid
	Reads, FollowerReads, StaleReads                    uint64
	LeaderChanges, SnapshotsInstalled, Starts           int
	Counters, Faults                                    int
	// Undecided are histories of which it is not known whether an order explains them: the search
	// for one takes longer than it may. They are not violations, and prove nothing.
	Undecided    int
	FaultsByKind map[string]int
	Elapsed      time.Duration
	// KeysOnDisk are the idempotency keys that had left memory in the end.
	KeysOnDisk uint64
	// Violations are promises that were broken.
	Violations []Violation
}

// String is the summary in a few lines.
func (s Summary) String() string {
	text := fmt.Sprintf("%d acknowledged writes, %d duplicates, %d refused at a limit, "+
		"%d of unknown fate, %d refused, %d taken back, %d amended, %d reservations "+
		"(%d times settled and released at once), %d purchases\n%d linearizable reads, %d of them on followers; "+
		"%d stale reads\n%d faults %v, %d leader changes, %d snapshots installed, %d process starts\n"+
		"%d keys left memory, %d histories linearizable, %d not decided, %d violations, in %s",
		s.Acknowledged, s.Duplicates, s.Limited, s.Unknown, s.Refused, s.Voided, s.Amended,
		s.Reserved, s.Raced, s.Bought,
		s.Reads, s.FollowerReads, s.StaleReads, s.Faults, s.FaultsByKind, s.LeaderChanges,
		s.SnapshotsInstalled, s.Starts,
		s.KeysOnDisk, s.Counters, s.Undecided, len(s.Violations), s.Elapsed.Round(time.Second))
	for _, v := range s.Violations {
		text += "\nVIOLATION: " + v.String()
	}
	return text
}

// Enough reports whether a run of that length did what it must have to prove something.
func (s Summary) Enough(length time.Duration) error {
	share := float64(length) / float64(10*time.Minute)
	var problems []error
	for _, row := range []struct {
		name      string
		got, want float64
	}{
		{"acknowledged writes", float64(s.Acknowledged), float64(Least.Acknowledged)},
		{"reads on followers", float64(s.FollowerReads), float64(Least.FollowerReads)},
		{"amendments", float64(s.Amended), float64(Least.Amended)},
		// Their budgets are for life: a longer run makes no more of them.
		{"reservations", float64(s.Reserved), float64(Least.Reserved) / max(share, 1)},
		{"automatic purchases", float64(s.Bought), float64(Least.Bought)},
		{"leader changes", float64(s.LeaderChanges), float64(Least.LeaderChanges)},
	} {
		if want := row.want * share; row.got < want {
			problems = append(problems, fmt.Errorf("%s: %.0f, want %.0f in %s", row.name, row.got,
				want, length))
		}
	}
	if all := s.Counters + s.Undecided; s.Undecided*10 > all {
		problems = append(problems, fmt.Errorf("%d of %d histories are not decided, and one in ten may "+
			"be: no order was found in %s, nor was it shown that there is none. Repeat the seed where "+
			"the machine has less to do; on an idle one, lower maxOpen or operations", s.Undecided, all,
			checkTime))
	}
	return errors.Join(problems...)
}

const (
	workers, judges = 10, 2
	// atATime is how many customers have work at a time, operations how many each sees.
	atATime, operations = 5, 260
	// spares is how many customers are made before they are needed.
	spares = 40
	// recovery bounds how long the cluster may need to be well again when all is mended.
	recovery = 90 * time.Second
)

// run is one run under way.
type run struct {
	*load
	judge    *judge
	ledger   *ledger
	spender  *spender
	buyer    *buyer
	injector *injector
	auditor  *auditor
}

// newRun is a run that was not begun.
func newRun(o Options) *run {
	known := &report{Options: o, begun: time.Now(), faults: make(map[string]int)}
	l := &load{
		report: known, fresh: make(chan *customer, spares), retired: make(chan *customer, 1024),
	}
	ledger, spender, buyer := &ledger{report: known}, &spender{load: l}, &buyer{report: known}
	return &run{
		load: l, judge: &judge{load: l}, ledger: ledger, spender: spender, buyer: buyer,
		injector: &injector{load: l},
		auditor:  &auditor{load: l, ledger: ledger, spender: spender, buyer: buyer},
	}
}

// Run tortures a cluster. An error means that the run could not be made; a broken promise is a
// violation in the summary, and ends the run.
func Run(ctx context.Context, o Options) (s Summary, err error) {
	if o.Say == nil {
		o.Say = func(string, ...any) {}
	}
	r := newRun(o)
	ctx, r.fail = context.WithCancel(ctx)
	defer r.fail()
	if r.fleet, err = newFleet(r.report); err != nil {
		return s, err
	}
	r.ledger.fleet, r.buyer.fleet = r.fleet, r.fleet
	defer func() { err = errors.Join(err, r.fleet.close()) }()
	if err = r.prepare(ctx); err != nil {
		return s, errors.Join(err, r.brokenPromises())
	}
	defer r.close()
	if err = r.torture(ctx); err != nil && len(r.violations) == 0 {
		return r.summary(), err
	}
	return r.summary(), nil
}

// prepare starts the cluster and its first customers.
func (r *run) prepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, recovery)
	defer cancel()
	if err := r.fleet.heal(); err != nil {
		return err
	}
	if err := r.fleet.awaitReady(ctx); err != nil {
		return err
	}
	var err error
	if r.key, err = r.fleet.setUp(ctx); err != nil {
		return err
	}
	if err = r.fleet.inbox.open(ctx, r.fleet); err != nil {
		return err
	}
	if err = r.greet(); err != nil {
		return err
	}
	if _, err = create(ctx, r.any, paddedCustomer, 0); err != nil {
		return err
	}
	if err = errors.Join(r.ledger.open(ctx), r.spender.open(ctx), r.buyer.open(ctx)); err != nil {
		return err
	}
	r.occurredAt = time.Now().UTC().Format(time.RFC3339)
	if err = r.loadBallast(ctx); err != nil {
		return err
	}
	for i := range r.active {
		c, err := r.create(ctx)
		if err != nil {
			return err
		}
		r.active[i].Store(c)
	}
	return nil
}

func (r *run) close() {
	closeAll(slices.Concat(r.clients, r.spender.agents, []*api.Client{r.any}))
}

// torture makes faults while clients work, and then looks at what is left.
func (r *run) torture(ctx context.Context) error {
	var helpers, working sync.WaitGroup
	busy, rest := context.WithTimeout(ctx, r.For)
	defer rest()
	helpers.Go(func() { r.makeCustomers(busy) })
	for i := range workers {
		random := rand.New(rand.NewPCG(r.Seed, uint64(i)+1))
		working.Go(func() { r.work(busy, i, random) })
	}
	random := rand.New(rand.NewPCG(r.Seed, workers+1))
	var kept, bought, watchedClock error
	working.Go(func() { kept = r.ledger.keep(busy, random) })
	working.Go(func() { bought = r.buyer.keep(busy, rand.New(rand.NewPCG(r.Seed, workers+4))) })
	working.Go(func() {
		watchedClock = r.auditor.watchClock(busy, rand.New(rand.NewPCG(r.Seed, workers+2)))
	})
	for i := range spenders {
		random := rand.New(rand.NewPCG(r.Seed, uint64(workers+5+i)))
		working.Go(func() { r.spender.keep(busy, random) })
	}
	watched, unwatch := context.WithCancel(ctx)
	for _, p := range r.fleet.everyone() {
		helpers.Go(func() { r.fleet.follow(watched, p) })
	}
	var judging sync.WaitGroup
	for range judges {
		judging.Go(func() {
			for c := range r.retired {
				r.judge.judge(ctx, c)
			}
		})
	}
	err := r.injector.makeFaults(busy)
	rest()
	working.Wait()
	err = errors.Join(err, kept, bought, watchedClock, r.injector.setClockRight(), r.fleet.heal())
	well, cancel := context.WithTimeout(ctx, recovery)
	defer cancel()
	err = errors.Join(err, r.fleet.awaitReady(well))
	for i := range r.active {
		if c := r.active[i].Load(); c.leave() {
			r.retired <- c
		}
	}
	close(r.retired)
	judging.Wait()
	if err == nil && ctx.Err() == nil {
		err = r.judge.judgeRest(ctx)
	}
	unwatch()
	helpers.Wait()
	if err == nil && ctx.Err() == nil {
		err = r.auditor.lookBack(ctx)
	}
	if err == nil && ctx.Err() == nil {
		r.judge.decideRest()
	}
	return err
}

// summary is what happened so far.
func (r *run) summary() Summary {
	r.report.mu.Lock()
	defer r.report.mu.Unlock()
	s := Summary{
		Acknowledged: r.acknowledged.Load(), Duplicates: r.duplicates.Load(),
		Limited: r.limited.Load(), Unknown: r.unknown.Load(), Refused: r.refused.Load(),
		Voided: r.voided.Load(), Amended: r.amended.Load(), Reserved: r.reserved.Load(),
		Raced:  r.raced.Load(),
		Bought: r.buyer.bought(),
		Reads:  r.reads.Load(), FollowerReads: r.followerReads.Load(), StaleReads: r.staleReads.Load(),
		KeysOnDisk:    r.keysOnDisk.Load(),
		LeaderChanges: r.fleet.leaderChanges(), Counters: int(r.counters.Load()),
		SnapshotsInstalled: r.fleet.count("Installed remote snapshot"),
		Undecided:          len(r.judge.undecided),
		FaultsByKind:       r.faults, Elapsed: time.Since(r.begun), Violations: r.violations,
	}
	for _, n := range r.faults {
		s.Faults += n
	}
	for _, p := range r.fleet.everyone() {
		s.Starts += p.starts
	}
	return s
}
