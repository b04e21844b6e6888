package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	api "tollgate/sdk/go"
)

// clockMemory is longer than what one node's clock said counts with the others: two that are wrong
// within that time are a majority, which is right by definition.
const clockMemory = 40 * time.Second

// clockLead is how far ahead of the true time log time may be while one clock is wrong: 10 s, and
// what the answers about the others' clocks may be off.
const clockLead = 12 * time.Second

const year = 365 * 24 * time.Hour

// steps are how far clocks are moved.
var steps = []time.Duration{
	year, -year, time.Hour, -time.Hour, time.Minute, -time.Minute, 3 * time.Second, -3 * time.Second,
}

// liar is the node whose clock is wrong, or was; until is when it was set right, zero if it is
// still wrong.
type liar struct {
	node  *process
	until time.Time
}

// stepClock sets a node's clock to another time, or right again. It stays like that for the faults
// to come.
func (inj *injector) stepClock(ctx context.Context, random *rand.Rand) error {
	victim, dice, step := inj.victim(random), random.IntN(3), steps[random.IntN(len(steps))]
	if inj.liar.node == nil || !inj.liar.until.IsZero() && time.Since(inj.liar.until) > clockMemory {
		inj.liar = liar{node: victim}
	} else if inj.liar.until.IsZero() && dice == 0 {
		return inj.setClockRight()
	}
	inj.liar.until = time.Time{}
	inj.Say("        %s by %s", inj.liar.node.id, step)
	if err := inj.liar.node.stepClock(step); err != nil {
		return err
	}
	pause(ctx, between(random, 500, 3500))
	return nil
}

// setClockRight ends a lie.
func (inj *injector) setClockRight() error {
	if inj.liar.node == nil || !inj.liar.until.IsZero() {
		return nil
	}
	inj.liar.until = time.Now()
	return inj.liar.node.stepClock(0)
}

// stepClock sets a node's clock off by that much, of a program that was built for it.
func (p *process) stepClock(step time.Duration) error {
	name := filepath.Join(p.settings.Data, "clock-step")
	// A file that is half written would be no duration.
	err := os.WriteFile(name+".tmp", []byte(step.String()), 0o600)
	if err == nil {
		err = os.Rename(name+".tmp", name)
	}
	if err != nil {
		return fmt.Errorf("torture: step the clock of %s: %w", p.id, err)
	}
	return nil
}

// watchClock checks on every node that log time is not too far ahead: what falls due would fall due
// early.
func (a *auditor) watchClock(ctx context.Context, random *rand.Rand) error {
	nodes, err := a.fleet.admins()
	if err != nil {
		return err
	}
	defer closeAll(nodes)
	for pause(ctx, between(random, 100, 300)) {
		i := random.IntN(len(nodes))
		if now, ok := logTime(ctx, nodes[i]); ok && time.Until(now) > clockLead {
			a.violate(byLogTimes, "%s reports log time %s, which is %s ahead", a.fleet.nodes[i].id,
				now.Format(time.RFC3339), time.Until(now))
		}
	}
	return nil
}

// logTime asks a node what time it is in the sandbox. Most faults leave somebody without an answer.
func logTime(ctx context.Context, node *api.Client) (now time.Time, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	answer, err := node.Try(ctx, api.Request{Method: "GET", Path: sandbox + "/clock"})
	if err != nil {
		return now, false
	}
	var clock struct{ Now time.Time }
	err = answer.Data(&clock)
	return clock.Now, err == nil
}
