package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	// changeRetry is how often a change is tried again while leadership moves.
	changeRetry = 50 * time.Millisecond
	// maxChangeBytes bounds a change that another node asks for.
	maxChangeBytes = 4 << 10
)

// askLeader brings a change to the group's leader, again while leadership moves.
func (m *membership) askLeader(ctx context.Context, c change) error {
	for {
		r := m.router.route.Load()
		err := fmt.Errorf("group %s has no leader that can be reached", m.name)
		if r.ready {
			err = m.change(ctx, c)
			if err == nil || errors.Is(err, ErrMembers) {
				return err
			}
		}
		for _, id := range m.likelyLeaders(r) {
			answer, aerr := m.askChange(ctx, id, c)
			switch {
			case aerr != nil || answer.Elsewhere:
				continue
			case answer.Members != nil:
				return unchanged("%w", &noMemberError{id: c.Member.ID, members: answer.Members})
			case answer.Error != "":
				return unchanged("%s", answer.Error)
			}
			return nil
		}
		if !m.pause(ctx, changeRetry) {
			return unchanged("or it is not known: repeat the command: %w", errors.Join(ctx.Err(), err))
		}
	}
}

// likelyLeaders are the other nodes to ask for a change: the leader if known, otherwise all. A node
// that has moved learns of no leader before the members know its new address.
func (m *membership) likelyLeaders(r *route) []string {
	if r.leader != "" {
		return slices.DeleteFunc([]string{r.leader}, func(id string) bool {
			return id == m.config.NodeID
		})
	}
	var ids []string
	for _, s := range m.servers().Servers {
		if string(s.ID) != m.config.NodeID {
			ids = append(ids, string(s.ID))
		}
	}
	return ids
}

// askChange sends a change to the leader on another node.
func (m *membership) askChange(ctx context.Context, leader string, c change) (changed, error) {
	if end, ok := ctx.Deadline(); ok {
		c.WithinMS = time.Until(end).Milliseconds()
	}
	payload, err := json.Marshal(c)
	if err != nil {
		return changed{}, err
	}
	reply, err := m.request(ctx, leader, callChange, payload)
	if err != nil {
		return changed{}, err
	}
	var answer changed
	if err := json.Unmarshal(reply, &answer); err != nil {
		return changed{}, fmt.Errorf("%w: %w", errMessage, err)
	}
	return answer, nil
}

// changeWithin bounds a change that was asked for without a limit.
const changeWithin = 30 * time.Second

// serveChange carries out a change for another node.
func (m *membership) serveChange(payload []byte) []byte {
	var c change
	answer := changed{Error: "malformed change"}
	if len(payload) <= maxChangeBytes && json.Unmarshal(payload, &c) == nil {
		within := time.Duration(c.WithinMS) * time.Millisecond
		if within <= 0 || within > changeWithin {
			within = changeWithin
		}
		ctx, cancel := context.WithTimeout(m.ctx, within)
		err := m.change(ctx, c)
		cancel()
		answer = changed{}
		if absent := (*noMemberError)(nil); errors.As(err, &absent) {
			answer.Members = absent.members
		}
		switch {
		case errors.Is(err, ErrNotLeader):
			answer.Elsewhere = true
		case err != nil:
			answer.Error = WhyUnchanged(err).Error()
		}
	}
	text, err := json.Marshal(answer)
	if err != nil {
		return nil
	}
	return text
}

// change makes a change, or returns why not; ErrNotLeader if another node must be asked.
func (m *membership) change(ctx context.Context, c change) error {
	select {
	case m.changing <- struct{}{}:
		defer func() { <-m.changing }()
	case <-ctx.Done():
		return unchanged("group %s: another change is under way", m.name)
	}
	here, err := m.beginChange()
	if err != nil {
		return err
	}
	switch c.Kind {
	case changeJoin:
		return here.join(ctx, c)
	case changePromote:
		return here.promote(ctx, c)
	case changeRemove:
		return here.remove(ctx, c)
	case changeTransfer:
		return here.transfer(ctx, c)
	}
	return unchanged("this version knows no change %q", c.Kind)
}

// HandOver gives this node's leadership to another voter: to target, or, when that is empty, to one
// that has answered recently and whose log is furthest. Writes wait meanwhile; none is refused. It
// returns nil when this node leads no longer. An error wraps ErrNotLeader or ErrHandOver, and
// nothing has changed, except that this node reads without a lease for the rest of its term.
//
// Members do not change meanwhile: the target would stand without an entry that the others have,
// and the group would have no leader until the next election.
func (m *membership) HandOver(ctx context.Context, target string) error {
	select {
	case m.changing <- struct{}{}:
		defer func() { <-m.changing }()
	case <-ctx.Done():
		return fmt.Errorf("%w: group %s: the members are being changed", ErrHandOver, m.name)
	case <-m.closing:
		return errHalted
	}
	return m.handover.handOver(ctx, target)
}

func (m *membership) retire(ctx context.Context) error {
	for round := 1; ; round++ {
		r := m.router.route.Load()
		if !r.ready {
			return nil
		}
		var errs []error
		for _, s := range m.handover.successors(r.term) {
			err := m.HandOver(ctx, string(s.ID))
			if err == nil || errors.Is(err, ErrNotLeader) {
				return nil
			}
			errs = append(errs, err)
		}
		alone := len(m.electorate.voters()[0]) < 2
		if alone || round == retireRounds || !m.pause(ctx, 5*retryEvery) {
			errs = append(errs, fmt.Errorf("%w: group %s", ErrHandOver, m.name))
			return errors.Join(errs...)
		}
	}
}
