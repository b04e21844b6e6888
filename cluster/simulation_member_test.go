package cluster

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/faultfs"
)

// replace takes a node out for good, disk and all, whatever state the others are in. One at a time.
func (s *simulation) replace(id string) {
	if s.replaced != "" {
		return
	}
	s.replaced = id
	s.saw("node replaced")
	if s.group(id) != nil {
		if err := s.turnOff(id); err != nil {
			testLog().Info("closed", "node", id, "error", err)
		}
	}
	s.net.mend()
}

// isOut reports whether a node must not be started: its folder is about to be emptied.
func (s *simulation) isOut(id string) bool { return id == s.replaced && !s.gone }

// goOnReplacing does what is left to do for the node that is being replaced, as far as the others
// let it; true when nothing is left. What was refused, or is not known, is tried again.
func (s *simulation) goOnReplacing(within time.Duration) bool {
	id := s.replaced
	if id == "" {
		return true
	}
	ctx, cancel := context.WithTimeout(s.nodes.t.Context(), within)
	defer cancel()
	through := s.other(id)
	if through == nil {
		return false
	}
	if !s.gone {
		err := through.Remove(ctx, id)
		nobody := (*noMemberError)(nil) // another node was asked before, and was not heard
		if err != nil && !errors.As(err, &nobody) {
			require.ErrorIs(s.nodes.t, err, ErrMembers)
			testLog().Info("the replacement waits", "node", id, "error", err)
			return false
		}
		require.NoError(s.nodes.t, os.RemoveAll(filepath.Join(s.dir, id)))
		s.disks[id], s.joins[id], s.gone = faultfs.New(), true, true
		s.forget(id)
		delete(s.copies, id)
	}
	if s.group(id) == nil {
		s.turnOn(id)
	}
	err := through.Join(ctx, memberOf(id))
	if err == nil {
		err = through.Promote(ctx, id)
	}
	if err != nil {
		require.ErrorIs(s.nodes.t, err, ErrMembers)
		testLog().Info("the replacement waits", "node", id, "error", err)
		return false
	}
	s.replaced, s.gone = "", false
	s.saw("replacement done")
	return true
}

// other is a running node other than one.
func (s *simulation) other(id string) *Node {
	for _, other := range s.others(id) {
		if n := s.nodes.node[other]; n != nil {
			return n
		}
	}
	return nil
}

// transfer asks a node, in the background, to let one lead. What is cut meanwhile may refuse it.
func (s *simulation) transfer(at, to string) {
	s.at.RLock()
	n := s.nodes.node[at]
	s.at.RUnlock()
	if n == nil {
		return
	}
	s.helpers.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := n.Transfer(ctx, to); err != nil && !errors.Is(err, ErrMembers) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.blame(err)
		}
	})
}
