package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"tollgate/engine"
)

var (
	// ErrNotLeader means that another node leads, or none.
	ErrNotLeader = errors.New("cluster: this node does not lead")
	// ErrHandOver means that leadership stayed where it was.
	ErrHandOver = errors.New("cluster: leadership was not handed over")
)

const (
	// handOverLag is how many entries the target may lag when the leader begins to hold back writes.
	handOverLag = 64
	// retireRounds is how often a stopping node asks each of the others.
	retireRounds = 3
)

// handover gives leadership to another node.
type handover struct {
	*core
	electorate *electorate
	router     *router
	proposer   *proposer
}

// handOver is HandOver; the caller holds changing.
func (h *handover) handOver(ctx context.Context, target string) error {
	r := h.router.route.Load()
	if !r.ready {
		return fmt.Errorf("%w group %s", ErrNotLeader, h.name)
	}
	to, err := h.successor(r.term, target)
	if err != nil {
		return err
	}
	near := func() uint64 { return h.raft.LastIndex() - min(handOverLag, h.raft.LastIndex()) }
	if err := h.awaitMatch(ctx, r, to.ID, near); err != nil {
		return err
	}
	h.proposer.holdBack()
	if err := h.giveAway(ctx, r, to); err != nil {
		h.proposer.goOn(r)
		return err
	}
	h.log.Info("leadership was handed over", "term", r.term, "to", to.ID)
	return nil
}

// giveAway hands over while writes are held back.
func (h *handover) giveAway(ctx context.Context, r *route, to raft.Server) error {
	h.proposer.awaitFlights(ctx)
	index, err := h.announce(ctx, r.term, to.ID)
	if err != nil {
		return fmt.Errorf("%w: group %s: the log does not take it: %w", ErrHandOver, h.name, err)
	}
	beat := h.config.HeartbeatTimeout
	soon, cancel := context.WithTimeout(ctx, beat)
	defer cancel()
	if err := h.awaitMatch(soon, r, to.ID, func() uint64 { return index }); err != nil {
		return err
	}
	sent := make(chan error, 1)
	go func() {
		req := &raft.TimeoutNowRequest{RPCHeader: header()}
		sent <- h.transport.rawTransport.TimeoutNow(
			to.ID, to.Address, req, &raft.TimeoutNowResponse{})
	}()
	late := time.NewTimer(2 * beat)
	defer late.Stop()
	for {
		select {
		case err := <-sent:
			if err != nil {
				return fmt.Errorf("%w: group %s: %s refused: %w", ErrHandOver, h.name, to.ID, err)
			}
			sent = nil
		case <-r.changed:
			return nil
		case <-late.C:
			return fmt.Errorf("%w: group %s: %s was not elected", ErrHandOver, h.name, to.ID)
		case <-h.closing:
			return errHalted
		}
	}
}

// successors are the other voters that answered within a heartbeat timeout, those with room on
// their disks first, and then by the length of their logs.
func (h *handover) successors(term uint64) []raft.Server {
	var fit []raft.Server
	votes := h.electorate.voters()
	for _, s := range h.raft.GetConfiguration().Configuration().Servers {
		if s.Suffrage != raft.Voter || string(s.ID) == h.config.NodeID ||
			!slices.Contains(votes[1], s.ID) {
			continue
		}
		sent, ok := h.lease.ackedAt(term, s.ID)
		if ok && monotonic()-sent.mono <= int64(h.config.HeartbeatTimeout) {
			fit = append(fit, s)
		}
	}
	slices.SortStableFunc(fit, func(a, b raft.Server) int {
		if roomy := h.electorate.voterRoom.has(a.ID); roomy != h.electorate.voterRoom.has(b.ID) {
			if roomy {
				return -1
			}
			return 1
		}
		x, _ := h.transport.matched.of(term, a.ID)
		y, _ := h.transport.matched.of(term, b.ID)
		return cmp.Compare(y, x)
	})
	return fit
}

// successor finds the next leader.
func (h *handover) successor(term uint64, target string) (raft.Server, error) {
	for _, s := range h.successors(term) {
		if target == "" || string(s.ID) == target {
			return s, nil
		}
	}
	what := "no other voter has answered recently: see `tollgate cluster status`"
	if target != "" {
		what = fmt.Sprintf("%q is this node, is not a voter, or has not answered recently", target)
	}
	return raft.Server{}, fmt.Errorf("%w: group %s: %s", ErrHandOver, h.name, what)
}

// awaitMatch waits until a peer's log has reached an index.
func (h *handover) awaitMatch(
	ctx context.Context, r *route, peer raft.ServerID, wanted func() uint64,
) error {
	for {
		index, news := h.transport.matched.of(r.term, peer)
		if index >= wanted() {
			return nil
		}
		select {
		case <-news:
		case <-r.changed:
			return fmt.Errorf("%w group %s any more", ErrNotLeader, h.name)
		case <-ctx.Done():
			return fmt.Errorf("%w: group %s: the log of %s is %d entries behind",
				ErrHandOver, h.name, peer, wanted()-min(wanted(), index))
		case <-h.closing:
			return errHalted
		}
	}
}

// announce writes the hand-over into the log and waits until it is committed. The lease ends first.
func (h *handover) announce(
	ctx context.Context, term uint64, to raft.ServerID,
) (index uint64, err error) {
	over := engine.HandOver{Term: term, Target: string(to)}
	h.lease.forgo(term)
	future := h.proposer.handIn(engine.Record{
		Kind: engine.KindHandOver, Payload: engine.AppendHandOver(nil, over),
	})
	if err = h.await(ctx, future); err != nil {
		return 0, err
	}
	h.transport.handed.note(over, future.Index())
	return future.Index(), nil
}
