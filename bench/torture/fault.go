package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"tollgate/cluster"
	api "tollgate/sdk/go"
)

// fault is one way to trouble a cluster. inflict returns when the trouble is over, or may be; the
// cluster is mended afterwards whatever it left behind.
type fault struct {
	name    string
	inflict func(i *injector, ctx context.Context, random *rand.Rand) error
}

// faults are all kinds, in the order in which a run of no random turns makes them.
var faults = []fault{
	{"kill", (*injector).killOne},
	{"pause", (*injector).pauseOne},
	{"partition", (*injector).partition},
	{"one-way", (*injector).oneWay},
	{"flap", (*injector).flap},
	{"break", (*injector).breakConnections},
	{"snapshot", (*injector).needSnapshot},
	{"restart all", (*injector).restartAll},
	{"stop", (*injector).stopOne},
	{"transfer", (*injector).transfer},
	{"replace", (*injector).replaceOne},
	{"clock", (*injector).stepClock},
	{"grow", (*injector).grow},
}

// injector makes the faults.
type injector struct {
	*load
	liar liar
	// struck is set once a leader has been a victim.
	struck bool
}

// makeFaults troubles the cluster until ctx ends: every kind once in random order, then again. The
// order, the victims' roles and the times come from the seed.
func (inj *injector) makeFaults(ctx context.Context) error {
	random := rand.New(rand.NewPCG(inj.Seed, 0))
	kinds := slices.DeleteFunc(slices.Clone(faults), func(f fault) bool {
		return len(inj.Kinds) > 0 && !slices.Contains(inj.Kinds, f.name)
	})
	for pause(ctx, between(random, 300, 800)) {
		for _, i := range random.Perm(len(kinds)) {
			f := kinds[i]
			inj.phase(f.name)
			if err := f.inflict(inj, ctx, random); err != nil && ctx.Err() == nil {
				return fmt.Errorf("torture: %s: %w", f.name, err)
			}
			inj.made(f.name)
			if err := inj.fleet.heal(); err != nil {
				return err
			}
			if !pause(ctx, between(random, 200, 1800)) {
				return nil
			}
		}
	}
	return nil
}

// between is a random time of that many milliseconds.
func between(random *rand.Rand, minimum, maximum int) time.Duration {
	return time.Duration(minimum+random.IntN(maximum-minimum)) * time.Millisecond
}

// victim is the leader the first time, and two times out of three, otherwise any node.
func (inj *injector) victim(random *rand.Rand) *process {
	any := inj.fleet.nodes[random.IntN(fleetSize)]
	if leader := inj.fleet.leading(); leader != nil && (random.IntN(3) > 0 || !inj.struck) {
		inj.struck = true
		return leader
	}
	return any
}

func (inj *injector) others(p *process) []*process {
	var rest []*process
	for _, q := range inj.fleet.nodes {
		if q != p {
			rest = append(rest, q)
		}
	}
	return rest
}

// killOne kills a node, now and then a second one before the first is back.
func (inj *injector) killOne(ctx context.Context, random *rand.Rand) error {
	p := inj.victim(random)
	if err := inj.fleet.kill(p); err != nil {
		return err
	}
	pause(ctx, between(random, 100, 2000))
	if random.IntN(3) == 0 {
		if err := inj.fleet.kill(inj.others(p)[random.IntN(2)]); err != nil {
			return err
		}
		pause(ctx, between(random, 100, 1000))
	}
	return inj.fleet.start(p)
}

// pauseOne stops a process past the election timeout, and lets it go on as if nothing had been.
func (inj *injector) pauseOne(ctx context.Context, random *rand.Rand) error {
	p := inj.victim(random)
	if err := inj.fleet.pause(p); err != nil {
		return err
	}
	pause(ctx, between(random, 700, 3500))
	waiting := inj.readAll(ctx, p)
	pause(ctx, between(random, 20, 100))
	err := inj.fleet.resume(p)
	waiting.Wait()
	return err
}

// readAll sends a linearizable read of every counter that has work to a node that does not answer.
// They are what it answers first when it goes on: by then another may have led for seconds.
func (inj *injector) readAll(ctx context.Context, p *process) *sync.WaitGroup {
	var group sync.WaitGroup
	node := slices.Index(inj.fleet.nodes, p)
	for i := range inj.active {
		c := inj.active[i].Load()
		for _, k := range c.counters {
			if !c.take() {
				break
			}
			group.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, timeouts[2])
				defer cancel()
				inj.look(ctx, judgeClient, node, k)
				if c.give() {
					inj.retired <- c
				}
			})
		}
	}
	return &group
}

// partition cuts all links of a node, with or without telling it.
func (inj *injector) partition(ctx context.Context, random *rand.Rand) error {
	p := inj.victim(random)
	if random.IntN(2) == 0 {
		inj.fleet.links.Isolate(p.id)
	} else {
		inj.fleet.links.Unplug(p.id)
	}
	pause(ctx, between(random, 500, 3500))
	return nil
}

// oneWay makes a node deaf or dumb, towards all or towards one.
func (inj *injector) oneWay(ctx context.Context, random *rand.Rand) error {
	p := inj.victim(random)
	deaf, rest := random.IntN(2) == 0, inj.others(p)
	for _, q := range rest[:1+random.IntN(len(rest))] {
		if deaf {
			inj.fleet.links.Hold(q.id, p.id)
		} else {
			inj.fleet.links.Hold(p.id, q.id)
		}
	}
	pause(ctx, between(random, 500, 3000))
	return nil
}

// flap cuts and mends the links of a node many times in a row.
func (inj *injector) flap(ctx context.Context, random *rand.Rand) error {
	p := inj.victim(random)
	for range 4 + random.IntN(6) {
		inj.fleet.links.Isolate(p.id)
		pause(ctx, between(random, 50, 700))
		inj.fleet.links.Mend()
		if !pause(ctx, between(random, 20, 300)) {
			break
		}
	}
	return nil
}

// breakConnections ends connections with what is under way in them.
func (inj *injector) breakConnections(ctx context.Context, random *rand.Rand) error {
	for range 3 + random.IntN(6) {
		p := inj.victim(random)
		for _, q := range inj.others(p) {
			inj.fleet.links.Break(p.id, q.id)
			inj.fleet.links.Break(q.id, p.id)
		}
		if !pause(ctx, between(random, 20, 300)) {
			break
		}
	}
	return nil
}

// restartAll kills every node, and starts them in any order.
func (inj *injector) restartAll(ctx context.Context, random *rand.Rand) error {
	for _, i := range random.Perm(fleetSize) {
		if err := inj.fleet.kill(inj.fleet.nodes[i]); err != nil {
			return err
		}
	}
	for _, i := range random.Perm(fleetSize) {
		if err := inj.fleet.start(inj.fleet.nodes[i]); err != nil {
			return err
		}
		pause(ctx, between(random, 1, 400))
	}
	return nil
}

// floodTime bounds how long it may take until a node that is away needs a snapshot.
const floodTime = 15 * time.Second

// needSnapshot keeps a follower away until the others have no log for it any more.
func (inj *injector) needSnapshot(ctx context.Context, random *rand.Rand) error {
	ctx, cancel := context.WithTimeout(ctx, floodTime)
	defer cancel()
	p := inj.fleet.nodes[random.IntN(fleetSize)]
	if p == inj.fleet.leading() {
		p = inj.others(p)[random.IntN(fleetSize-1)]
	}
	s, err := inj.fleet.status(ctx, p)
	if err != nil {
		return nil // it is not well yet: another time
	}
	last := s.Groups[cluster.ShardBilling].LastIndex
	if err = inj.fleet.kill(p); err != nil {
		return err
	}
	for ctx.Err() == nil && !inj.forgotten(ctx, p, last) {
		inj.flood(ctx)
	}
	if random.IntN(2) == 0 && ctx.Err() == nil { // into the middle of the installation
		if err = inj.fleet.start(p); err != nil {
			return err
		}
		pause(ctx, between(random, 50, 600))
		return inj.fleet.kill(p)
	}
	return nil
}

// forgotten reports whether every node but one has no log up to an index any more.
func (inj *injector) forgotten(ctx context.Context, away *process, index uint64) bool {
	for _, p := range inj.others(away) {
		s, err := inj.fleet.status(ctx, p)
		if err != nil || s.Groups[cluster.ShardBilling].FirstIndex <= index+1 {
			return false
		}
	}
	return true
}

// A flood is so many events at a time, each of them with the greatest padding that one carries.
const (
	floodClients = 8
	floodEvents  = 20
	padding      = 7 << 10
)

// flood fills the log with usage events of a customer that no check looks at.
func (inj *injector) flood(ctx context.Context) {
	var group sync.WaitGroup
	for range floodClients {
		group.Go(func() {
			for range floodEvents {
				body := inj.paddedEvent()
				answer, err := inj.any.Do(ctx, api.Request{Method: "POST", Path: eventsPath, Body: body})
				if err != nil {
					return
				}
				if answer.Status != 201 && answer.Status != 409 { // an attempt before the last took effect
					inj.violate(byAnswers, "a padded event: %d: %s", answer.Status, answer.Body)
				}
			}
		})
	}
	group.Wait()
}
