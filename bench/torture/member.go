package torture

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"time"

	api "tollgate/sdk/go"
)

const (
	membersPath = "/api/v1/admin/cluster/members"
	// replaceTime bounds the replacement of a node, until it has its vote.
	replaceTime = 60 * time.Second
	// stopTime bounds a graceful stop: the setting stopTimeout, and room.
	stopTime = 20 * time.Second
)

// ask sends one request about the members to a node.
func (f *fleet) ask(ctx context.Context, at *process, method, path string, body any) error {
	r := api.Request{Method: method, Path: membersPath + path}
	if body != nil {
		var err error
		if r.Body, err = json.Marshal(body); err != nil {
			return err
		}
	}
	answer, err := f.try(ctx, at, r)
	if err != nil {
		return err
	}
	return answer.Err()
}

// insist repeats a request about the members until it is carried out.
func (inj *injector) insist(ctx context.Context, at *process, method, path string, body any) error {
	for {
		err := inj.fleet.ask(ctx, at, method, path, body)
		if err == nil {
			return nil
		}
		if !pause(ctx, 200*time.Millisecond) {
			return fmt.Errorf("torture: %s %s at %s: %w", method, path, at.id, err)
		}
	}
}

// stopOne stops a node as an upgrade does: it hands over first.
func (inj *injector) stopOne(ctx context.Context, random *rand.Rand) error {
	p := inj.victim(random)
	late := time.AfterFunc(stopTime, func() {
		inj.violate(byProcesses, "%s does not stop within %s", p.id, stopTime)
		if err := inj.fleet.kill(p); err != nil {
			inj.violate(byProcesses, "%s: %v", p.id, err)
		}
	})
	defer late.Stop()
	if err := inj.fleet.end(p, syscall.SIGTERM); err != nil {
		return err
	}
	pause(ctx, between(random, 10, 1500))
	return inj.fleet.start(p)
}

// transfer lets one node after another lead. A refusal is one: the target may lag.
func (inj *injector) transfer(ctx context.Context, random *rand.Rand) error {
	for range 2 + random.IntN(4) {
		to, at := inj.fleet.nodes[random.IntN(fleetSize)], inj.fleet.nodes[random.IntN(fleetSize)]
		if err := inj.fleet.ask(ctx, at, "POST", "/"+to.id+"/lead", nil); err != nil {
			inj.Say("        %s does not lead: %v", to.id, err)
		}
		if !pause(ctx, between(random, 50, 800)) {
			break
		}
	}
	return nil
}

// replaceOne kills a node, takes it out of the cluster, empties its folder, and brings it in again
// as a new member of the same name: log, state and journal come from the others.
func (inj *injector) replaceOne(ctx context.Context, random *rand.Rand) error {
	// It goes on when the run ends meanwhile: the closing looks at every node.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), replaceTime)
	defer cancel()
	if err := inj.setClockRight(); err != nil { // else it counts among those that are not well
		return err
	}
	p := inj.victim(random)
	at := inj.others(p)[random.IntN(fleetSize-1)]
	if random.IntN(2) == 0 {
		if err := inj.fleet.kill(p); err != nil {
			return err
		}
	}
	if err := inj.insist(ctx, at, "DELETE", "/"+p.id, nil); err != nil {
		return err
	}
	if err := inj.fleet.kill(p); err != nil {
		return err
	}
	if err := os.RemoveAll(p.settings.Data); err != nil {
		return err
	}
	p.settings.Join = true
	if err := p.configure(); err != nil {
		return err
	}
	if err := inj.fleet.start(p); err != nil {
		return err
	}
	return inj.admit(ctx, p, at)
}

// admit makes a node that waits for it a member with a vote.
func (inj *injector) admit(ctx context.Context, p, at *process) error {
	err := inj.insist(ctx, at, "POST", "", map[string]string{
		"id": p.id, "raft": p.settings.Raft, "http": p.settings.HTTP, "ops": p.settings.Ops,
	})
	if err != nil {
		return err
	}
	return inj.insist(ctx, at, "POST", "/"+p.id+"/promote", nil)
}
