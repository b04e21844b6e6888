package torture

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"

	api "tollgate/sdk/go"
)

// guest is the place of the fourth node, behind those that are always members.
const guest = fleetSize

// everyone is all nodes, the guest included.
func (f *fleet) everyone() []*process { return append(f.nodes[:fleetSize:fleetSize], f.guest) }

// leading is the node that was last seen to lead; nil when none was, or it is no longer a member.
func (r *run) leading() *process {
	leader := r.leader.Load()
	if leader == nil || *leader == r.fleet.guest.id && !r.grown.Load() {
		return nil
	}
	return r.fleet.node(*leader)
}

// place draws a node that clients speak to.
func (r *run) place(random *rand.Rand) int {
	if r.grown.Load() {
		return random.IntN(fleetSize + 1)
	}
	return random.IntN(fleetSize)
}

// greet makes the clients of all nodes.
func (r *run) greet() error {
	var all []string
	for i, p := range r.fleet.everyone() {
		client, err := api.New([]string{p.settings.HTTP}, r.key, workers)
		if err != nil {
			return err
		}
		r.clients = append(r.clients, client)
		if i != guest {
			all = append(all, p.settings.HTTP)
		}
	}
	var err error
	r.any, err = api.New(all, r.key, workers)
	return err
}

// grow lets a fourth node join, with an empty disk, and vote. Clients speak to it, something
// happens to one of the four, and it leaves again, with whatever it leads.
func (r *run) grow(ctx context.Context, random *rand.Rand) error {
	// It goes on when the run ends meanwhile: the closing wants three members.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), replaceTime)
	defer cancel()
	p, at := r.fleet.guest, r.fleet.nodes[random.IntN(fleetSize)]
	err := r.setClockRight() // else it counts among those that are not well
	if err == nil {
		err = r.fleet.start(p)
	}
	if err == nil {
		err = r.admit(ctx, p, at)
	}
	if err != nil {
		return err
	}
	r.grown.Store(true)
	err = r.troubleFour(ctx, random)
	r.grown.Store(false)
	err = errors.Join(err, r.fleet.heal(), r.fleet.resume(p), r.fleet.start(p))
	if err == nil {
		err = r.insist(ctx, at, "DELETE", "/"+p.id, nil)
	}
	if err == nil {
		err = r.fleet.kill(p)
	}
	if err == nil {
		err = os.RemoveAll(p.settings.Data)
	}
	return err
}

// troubleFour does one thing to a cluster of four: two of them are not a majority.
func (r *run) troubleFour(ctx context.Context, random *rand.Rand) error {
	pause(ctx, between(random, 200, 1500))
	var err error
	switch p := r.victim(random); random.IntN(4) {
	case 0:
		err = r.fleet.kill(p)
	case 1:
		err = r.fleet.pause(p)
	case 2:
		r.fleet.links.Isolate(p.id)
	default:
		if err := r.fleet.ask(ctx, p, "POST", "/"+r.fleet.guest.id+"/lead", nil); err != nil {
			r.Say("        %s does not lead: %v", r.fleet.guest.id, err)
		}
	}
	pause(ctx, between(random, 700, 3000))
	return err
}
