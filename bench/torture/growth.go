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
func (f *fleet) leading() *process {
	leader := f.leader.Load()
	if leader == nil || *leader == f.guest.id && !f.grown.Load() {
		return nil
	}
	return f.node(*leader)
}

// place draws a node that clients speak to.
func (f *fleet) place(random *rand.Rand) int {
	if f.grown.Load() {
		return random.IntN(fleetSize + 1)
	}
	return random.IntN(fleetSize)
}

// greet makes the clients of all nodes.
func (l *load) greet() error {
	var all []string
	for i, p := range l.fleet.everyone() {
		client, err := api.New([]string{p.settings.HTTP}, l.key, workers)
		if err != nil {
			return err
		}
		l.clients = append(l.clients, client)
		if i != guest {
			all = append(all, p.settings.HTTP)
		}
	}
	var err error
	l.any, err = api.New(all, l.key, workers)
	return err
}

// grow lets a fourth node join, with an empty disk, and vote. Clients speak to it, something
// happens to one of the four, and it leaves again, with whatever it leads.
func (inj *injector) grow(ctx context.Context, random *rand.Rand) error {
	// It goes on when the run ends meanwhile: the closing wants three members.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), replaceTime)
	defer cancel()
	p, at := inj.fleet.guest, inj.fleet.nodes[random.IntN(fleetSize)]
	err := inj.setClockRight() // else it counts among those that are not well
	if err == nil {
		err = inj.fleet.start(p)
	}
	if err == nil {
		err = inj.admit(ctx, p, at)
	}
	if err != nil {
		return err
	}
	inj.fleet.grown.Store(true)
	err = inj.troubleFour(ctx, random)
	inj.fleet.grown.Store(false)
	err = errors.Join(err, inj.fleet.heal(), inj.fleet.resume(p), inj.fleet.start(p))
	if err == nil {
		err = inj.insist(ctx, at, "DELETE", "/"+p.id, nil)
	}
	if err == nil {
		err = inj.fleet.kill(p)
	}
	if err == nil {
		err = os.RemoveAll(p.settings.Data)
	}
	return err
}

// troubleFour does one thing to a cluster of four: two of them are not a majority.
func (inj *injector) troubleFour(ctx context.Context, random *rand.Rand) error {
	pause(ctx, between(random, 200, 1500))
	var err error
	switch p := inj.victim(random); random.IntN(4) {
	case 0:
		err = inj.fleet.kill(p)
	case 1:
		err = inj.fleet.pause(p)
	case 2:
		inj.fleet.links.Isolate(p.id)
	default:
		if err := inj.fleet.ask(ctx, p, "POST", "/"+inj.fleet.guest.id+"/lead", nil); err != nil {
			inj.Say("        %s does not lead: %v", inj.fleet.guest.id, err)
		}
	}
	pause(ctx, between(random, 700, 3000))
	return err
}
