package workspaceapi

import "sync"

// slotLimits is how many requests may wait for products at a time on one node, whatever they wait
// for: each holds a place among the requests that metering is served from, and a product may take
// as long as it likes.
type slotLimits struct {
	// all are for all of them, strangers of these for all unclaimed workspaces, one for
	// each workspace.
	all, strangers, one int
}

// places are those that are taken. The zero value has none taken.
type places struct {
	guard          sync.Mutex
	taken, strange int
	of             map[uint32]int // by workspace
}

// take gives a request a place, and says how to leave it; nil when all are taken.
func (p *places) take(maximum slotLimits, workspace uint32, claimed bool) (leave func()) {
	p.guard.Lock()
	defer p.guard.Unlock()
	if p.taken >= maximum.all || p.of[workspace] >= maximum.one ||
		!claimed && p.strange >= maximum.strangers {
		return nil
	}
	if p.of == nil {
		p.of = map[uint32]int{}
	}
	stranger := 0
	if !claimed {
		stranger = 1
	}
	p.taken, p.strange, p.of[workspace] = p.taken+1, p.strange+stranger, p.of[workspace]+1
	return func() {
		p.guard.Lock()
		defer p.guard.Unlock()
		p.taken, p.strange = p.taken-1, p.strange-stranger
		if p.of[workspace]--; p.of[workspace] == 0 {
			delete(p.of, workspace)
		}
	}
}

// preflights are the flows whose verification this node is calling, and who waits for that.
type preflights struct {
	places
	mu    sync.Mutex
	under map[[16]byte]chan struct{}
}

// one calls for a flow; a second caller waits for the first, so that many quotes at once are one
// preflight.
func (p *preflights) one(flow [16]byte, call func()) {
	p.mu.Lock()
	done, under := p.under[flow]
	if under {
		p.mu.Unlock()
		<-done
		return
	}
	if p.under == nil {
		p.under = map[[16]byte]chan struct{}{}
	}
	done = make(chan struct{})
	p.under[flow] = done
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.under, flow)
		p.mu.Unlock()
		close(done)
	}()
	call()
}
