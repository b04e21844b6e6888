package cluster

import (
	"bytes"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/engine"
)

// The versions of these tests: what this build knows, and what the next one does.
var known, next = engine.Version, engine.Version + 1

// builds gives each node the newest version that its build knows; changing one is installing
// another build, which counts from the node's next start.
type builds map[string]uint32

func (b builds) tune(id string, c *Config) { c.Billing.Machine.(*ledger).known = b[id] }

func (c *nodes) later(id string, key uint64) engine.Outcome {
	results := make([]engine.Result, 1)
	r := countRecord(key)
	r.Kind = kindLater
	c.billing(id).Propose(time.Now().Add(5*time.Second), []engine.Record{r}, results)
	return results[0].Outcome
}

func (c *nodes) agreed(version uint32) {
	c.t.Helper()
	c.eventually("a version is agreed on", func() bool {
		for _, id := range three {
			if c.node[id] == nil {
				continue
			}
			billing, _ := c.ledgers[id].Version()
			workspace, most := c.node[id].Workspace().Machine().Version()
			if billing != version || workspace != min(version, most) {
				return false
			}
		}
		return true
	})
}

// Node by node a newer build takes the older one's place while clients write. What the newer one
// brings is refused until the last node has it, and no node ever meets what it does not know.
func TestRollingUpgrade(t *testing.T) {
	versions := builds{"a": known, "b": known, "c": known}
	inCluster(t, versions.tune, func(c *nodes) {
		c.leader()
		c.agreed(known)
		var written, stop atomic.Uint64
		done := make(chan struct{})
		go func() {
			defer close(done)
			for key := uint64(1000); stop.Load() == 0; key++ {
				for !c.written(key) { // of unknown fate, through a node that is stopped just then
					time.Sleep(10 * time.Millisecond)
				}
				written.Add(1)
				time.Sleep(10 * time.Millisecond)
			}
		}()
		for i, id := range three {
			c.replace(id, func() { versions[id] = next })
			c.eventually("it is ready", func() bool { return c.node[id].Status().Ready })
			if i < len(three)-1 {
				time.Sleep(2 * time.Second)
				for _, other := range three[:i+1] { // the others have no such command
					require.Equal(t, engine.OutcomeUpgrading, c.later(other, 7), "%s after %s", other, id)
				}
				c.agreed(known)
			}
		}
		c.agreed(next)
		for i, id := range three {
			require.Equal(t, engine.OutcomeDone, c.later(id, uint64(i)))
		}
		stop.Store(1)
		<-done
		c.converge()
		for _, id := range three {
			require.Empty(t, c.fatals(id))
			require.EqualValues(t, written.Load()+3, c.ledgers[id].keys(), "nothing was lost")
			c.eventually("it has heard what the others know", func() bool {
				for _, m := range c.node[id].Status().Members {
					if m.Version != int64(next) {
						return false
					}
				}
				return true
			})
			require.EqualValues(t, next, c.billing(id).Status().Version)
		}
	})
}

// written counts a key through the first node that is up, and reports whether it was.
func (c *nodes) written(key uint64) bool {
	for _, id := range three {
		if g := c.running(id); g != nil {
			results := make([]engine.Result, 1)
			g.Propose(time.Now().Add(10*time.Second), []engine.Record{countRecord(key)}, results)
			return results[0].Outcome == engine.OutcomeDone
		}
	}
	return false
}

// running is a node's billing group, nil while it is down.
func (c *nodes) running(id string) *Group {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.node[id]; n != nil {
		return n.Billing()
	}
	return nil
}

// replace stops a node, lets something happen, and starts it again; others may look on meanwhile.
func (c *nodes) replace(id string, meanwhile func()) {
	c.t.Helper()
	c.mu.Lock()
	n := c.node[id]
	c.node[id] = nil
	c.mu.Unlock()
	require.NoError(c.t, n.Close())
	meanwhile()
	n, err := Open(c.config(id))
	require.NoError(c.t, err)
	c.mu.Lock()
	c.node[id] = n
	c.mu.Unlock()
}

// A member that is down may come back with what it had: nothing is agreed on without it.
func TestNothingIsAgreedOnWithoutAMember(t *testing.T) {
	versions := builds{"a": known, "b": known, "c": known}
	inCluster(t, versions.tune, func(c *nodes) {
		c.agreed(known)
		away := c.others(c.leader())[0]
		c.stop(away)
		for _, id := range c.others(away) {
			c.replace(id, func() { versions[id] = next })
		}
		leader := c.leader()
		time.Sleep(30 * time.Second)
		c.agreed(known)
		require.Equal(t, engine.OutcomeUpgrading, c.later(leader, 7))
		for _, m := range c.node[leader].Status().Members {
			if m.ID == away {
				require.EqualValues(t, -1, m.Version)
			}
		}
		c.start(away)
		c.converge()
		c.agreed(known)
		require.Empty(t, c.fatals(away))
		c.count(leader, 1)
	})
}

// Where the cluster has agreed on a version, an older build refuses the data folder and says why.
func TestOlderBuildsAreRefused(t *testing.T) {
	versions := builds{"a": next, "b": next, "c": next}
	inCluster(t, versions.tune, func(c *nodes) {
		c.agreed(next)
		time.Sleep(2 * versionEvery)
		back := c.others(c.leader())[0]
		c.stop(back)
		noted, err := readFolder(filepath.Join(c.dir, back))
		require.NoError(t, err)
		require.Equal(t, folder{Format: folderFormat, Version: next}, noted)
		versions[back] = known
		_, err = Open(c.config(back))
		require.ErrorIs(t, err, ErrNewerData)
		require.ErrorContains(t, err,
			fmt.Sprintf("agreed on version %d, this build knows up to %d", next, known))
		require.ErrorContains(t, err, "start the version that ran here")
		versions[back] = next
		c.start(back)
		c.converge()
		c.count(back, 1)
	})
}

// An older build with an empty folder is not joined; one that becomes a member all the same, since
// whoever was asked had not heard of the version, stops where it meets it: in the log, or in a
// snapshot.
func TestOlderBuildsAreNotJoined(t *testing.T) {
	versions := builds{"a": next, "b": next, "c": next, "d": known, "e": known}
	tune := func(id string, c *Config) {
		versions.tune(id, c)
		c.TrailingBytes = 1
	}
	inCluster(t, tune, func(c *nodes) {
		c.agreed(next)
		leader := c.leader()
		for _, step := range []struct{ id, met string }{{"d", "in the log"}, {"e", "in a snapshot"}} {
			id := step.id
			c.start(id)
			err := c.node[leader].Join(c.within(10*time.Second), memberOf(id))
			require.ErrorIs(t, err, ErrMembers)
			require.ErrorContains(t, err,
				fmt.Sprintf("agreed on version %d, the build of %s knows up to %d", next, id, known))
			require.False(t, c.isMember(leader, id))

			join := change{Kind: changeJoin, Member: memberOf(id), Disk: c.node[id].Disk()}
			require.NoError(t, c.node[leader].changeBoth(c.within(10*time.Second), join))
			c.eventually("it stops "+step.met, func() bool { return len(c.fatals(id)) > 0 })
			require.ErrorIs(t, c.fatals(id)[0], engine.ErrNewerVersion, step.met)
			require.Empty(t, c.fatals(leader))
			c.stop(id)
			require.NoError(t, c.node[leader].Remove(c.within(10*time.Second), id))
			for key := range uint64(minTrailing + 10) {
				c.count(leader, key)
			}
			require.NoError(t, c.billing(leader).TakeSnapshot())
		}
	})
}

func (c *nodes) isMember(at, id string) bool {
	_, ok := c.member(at, id)
	return ok
}

// A backup of a newer cluster is not restored by an older build.
func TestBackupOfANewerClusterIsRefused(t *testing.T) {
	var data []byte
	versions := builds{"a": next, "b": next, "c": next}
	inCluster(t, func(id string, c *Config) {
		withJournal(c)
		versions.tune(id, c)
	}, func(c *nodes) {
		c.agreed(next)
		data = c.save(c.leader())
	})
	older := aConfig(t.TempDir())
	older.Billing.Machine.(*ledger).known = known
	_, err := Restore(older, bytes.NewReader(data), nil)
	require.ErrorIs(t, err, engine.ErrNewerVersion)
	_, err = Open(aConfig(older.Dir))
	require.ErrorIs(t, err, ErrHalfRestored)
	newer := aConfig(t.TempDir())
	newer.Billing.Machine.(*ledger).known = next
	_, err = Restore(newer, bytes.NewReader(data), nil)
	require.NoError(t, err)
}
