package cluster

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/idempotency"
	"tollgate/engine/journal"
	fields "tollgate/engine/wire"
)

// withKeys gives the nodes the billing machine, whose keys leave memory.
func withKeys(_ string, c *Config) {
	c.Billing = Shard{
		Machine: billing.New(billing.Config{Shard: ShardBilling}),
		Indexer: billing.IndexRecord, KeyOf: billing.JournalKey,
	}
}

func (c *nodes) machine(id string) *billing.Machine {
	return c.billing(id).Machine().(*billing.Machine)
}

func (c *nodes) command(id string, kind engine.Kind, command fields.Fielder) {
	c.t.Helper()
	results := make([]engine.Result, 1)
	c.billing(id).Propose(time.Now().Add(10*time.Second),
		[]engine.Record{{Kind: kind, Payload: fields.Encode(nil, command)}}, results)
	require.Equal(c.t, engine.OutcomeDone.String(), results[0].Outcome.String())
}

// usage is an event of a key, large enough that a thousand of them fill a segment.
func usage(key string, units string) *billing.RecordUsage {
	text := fmt.Sprintf(`{"units":%q,"text":%q}`, units, strings.Repeat("x", 8000))
	return &billing.RecordUsage{
		Env: enginetest.Sandbox, Key: billing.UsageKey(enginetest.Sandbox, []byte(key)), Attempt: 1,
		KeyText: []byte(key), Customer: []byte("ada"), EventName: []byte("requests"),
		OccurredAt: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli(), Meta: []byte(text),
	}
}

// record records events as the HTTP API does it: with what the node's files say of their keys.
func (c *nodes) record(id string, events ...*billing.RecordUsage) (outcomes []string) {
	c.t.Helper()
	g, m := c.billing(id), c.machine(id)
	results := make([]engine.Result, len(events))
	for range 5 {
		var records []engine.Record
		for _, u := range events {
			r := engine.Record{Kind: billing.KindRecordUsage, Payload: u.Seal(nil)}
			v, err := g.KeyFinder().FindKey(u.Key)
			require.NoError(c.t, err)
			if m.KeySpan().OnDisk() > 0 {
				r.Kind = billing.KindRecordProbedUsage
				r.Payload = billing.AppendProbedUsage(nil, r.Payload, &v)
			}
			records = append(records, r)
		}
		g.Propose(time.Now().Add(10*time.Second), records, results)
		if results[0].Outcome != engine.OutcomeKeyUnproven {
			break
		}
	}
	for _, r := range results {
		outcomes = append(outcomes, r.Outcome.String())
	}
	return outcomes
}

// recordMany records events that are new.
func (c *nodes) recordMany(id string, from, to int) {
	c.t.Helper()
	for ; from < to; from += 25 {
		var events []*billing.RecordUsage
		for i := from; i < min(to, from+25); i++ {
			events = append(events, usage(fmt.Sprint("key ", i), "0"))
		}
		for _, o := range c.record(id, events...) {
			require.Equal(c.t, engine.OutcomeUnpriced.String(), o)
		}
	}
}

// knows compares what a node makes of events that were recorded, whose keys left memory or not.
func (c *nodes) knows(id string, keys ...int) {
	c.t.Helper()
	events := c.machine(id).Stats().UsageEvents
	for _, i := range keys {
		key := fmt.Sprint("key ", i)
		repeat, other := usage(key, "0"), usage(key, "1")
		repeat.Attempt, other.Attempt = 2, 2
		require.Equal(c.t, []string{"duplicate", "key_reused", "unpriced"},
			c.record(id, repeat, other, usage(key, "0")), "%s through %s", key, id)
	}
	require.Equal(c.t, events, c.machine(id).Stats().UsageEvents)
}

// demoted waits until keys have left memory everywhere, and all nodes are ready.
func (c *nodes) demoted(minimum uint64) {
	c.t.Helper()
	c.eventually("keys leave memory", func() bool {
		for id, n := range c.node {
			if n != nil && (c.machine(id).KeySpan().Memory < minimum || !n.Status().Ready) {
				return false
			}
		}
		return true
	})
}

// withCustomer makes a customer, and room for few keys in memory. It returns the leader.
func (c *nodes) withCustomer() string {
	c.t.Helper()
	leader := c.leader()
	c.command(leader, billing.KindCreateAccount, &billing.CreateAccount{
		ID: enginetest.ID("demo"), Name: "demo",
	})
	c.command(leader, billing.KindCreateCustomer, &billing.CreateCustomer{
		Env: enginetest.Sandbox, ID: enginetest.ID("ada"), ExternalID: "ada",
		FirstName: "Ada", LastName: "Lovelace", Email: "ada@example.com",
	})
	c.command(leader, billing.KindSetLimits, &billing.SetLimits{MaxKeysInMemory: 600})
	return leader
}

// A record whose answer was lost may have been carried out. That its key has left memory since, so
// that the copy that is sent again proves nothing, must not make this "nothing was changed".
func TestALostAnswerStaysUnknownWhenItsKeyLeavesMemory(t *testing.T) {
	inCluster(t, withKeys, func(c *nodes) {
		leader := c.withCustomer()
		follower := c.others(leader)[0]
		c.eventually("the version is agreed on", func() bool {
			agreed, known := c.machine(follower).Version()
			return agreed == known
		})
		c.net.cutLink(addressOf(leader), addressOf(follower))
		said := make(chan string, 1)
		go func() {
			v := idempotency.Verdict{}
			payload := billing.AppendProbedUsage(nil, usage("lost", "0").Seal(nil), &v)
			results := make([]engine.Result, 1)
			c.billing(follower).Propose(time.Now().Add(20*time.Second),
				[]engine.Record{{Kind: billing.KindRecordProbedUsage, Payload: payload}}, results)
			said <- results[0].Outcome.String()
		}()
		c.eventually("the first copy is carried out", func() bool {
			return c.machine(leader).KeySpan().Next == 1
		})
		c.command(leader, billing.KindDemoteKeys, &billing.DemoteKeys{Through: 1})
		time.Sleep(2 * time.Second) // the connection that has the answer is given up
		c.net.mend()
		require.Equal(t, engine.OutcomeUnknown.String(), <-said)
		require.EqualValues(t, 1, c.machine(leader).Stats().UsageEvents)
	})
}

// A voter that answers and cannot make files is named, and waited for during a minute; then keys
// leave memory without it, whoever leads. A node that joined lacks them, too: both say so,
// record nothing, and get no vote, until they have their files.
func TestAVoterWithoutFilesIsLeftOut(t *testing.T) {
	const poor = "c"
	var broken atomic.Bool
	broken.Store(true)
	tune := func(id string, c *Config) {
		withKeys(id, c)
		c.Billing.KeyOf = func(r journal.Record) (idempotency.Entry, bool, error) {
			if (id == poor || id == "d") && broken.Load() {
				return idempotency.Entry{}, false, errors.New("no files are made here")
			}
			return billing.JournalKey(r)
		}
	}
	inCluster(t, tune, func(c *nodes) {
		leader := c.withCustomer()
		if leader == poor {
			c.transfer(leader, "a")
			leader = c.leader(poor)
		}
		c.recordMany(leader, 0, 1500)
		time.Sleep(30 * time.Second)
		for _, id := range three {
			require.Zero(t, c.machine(id).KeySpan().OnDisk(), id)
			require.True(t, c.node[id].Status().Ready, id)
		}
		require.Equal(t, []string{poor}, c.billing(leader).Status().Keys.HeldUpBy)
		require.Positive(t, c.billing(poor).Status().Keys.Failures)
		c.lacksKeys(poor)
		c.knows(leader, 0, 900, 1400)
		time.Sleep(3 * time.Second)
		require.Zero(t, c.machine(leader).KeysToDemote())
		require.Equal(t, []string{poor}, c.billing(leader).Status().Keys.HeldUpBy, "still named")

		c.transfer(leader, poor)
		require.Equal(t, poor, c.leader(three[:2]...))
		c.recordMany(leader, 1500, 3000)
		c.eventually("keys leave memory while it leads", func() bool {
			return c.machine(leader).KeySpan().Memory > 2000
		})
		c.transfer(poor, leader)
		c.leader(poor)

		c.start("d")
		require.NoError(t, c.node[leader].Join(c.within(10*time.Second), memberOf("d")))
		c.lacksKeys("d")
		c.refusedToPromote(leader, "d", "has yet to put idempotency keys into files: wait")
		broken.Store(false)
		time.Sleep(80 * time.Second) // the longest pause between tries
		c.demoted(2000)
		c.knows(poor, 0, 900, 2900)
		c.knows("d", 0, 900, 2900)
		c.eventually("nobody is behind", func() bool {
			return len(c.billing(leader).Status().Keys.HeldUpBy) == 0
		})
		require.NoError(t, c.node[leader].Promote(c.within(10*time.Second), "d"))
		c.stop(poor)
		c.stop("d")
		said, voters := c.billing(leader).askCoverage()
		require.Equal(t, []int{2, 4}, []int{len(said), voters}, "which is not a majority")
	})
}

// lacksKeys waits until a node says that keys have left memory which are not in its files.
func (c *nodes) lacksKeys(id string) {
	c.t.Helper()
	c.eventually("it says what it lacks", func() bool {
		why := c.node[id].Status().Reasons
		return len(why) == 1 && why[0].Cause == CauseKeysUncovered
	})
	require.Equal(c.t, []string{"key_unproven", "key_unproven"},
		c.record(id, usage("key 0", "0"), usage("new", "0")), id)
}

// An answer that lacks something does not say that nothing is lacking.
func TestAShortAnswerIsNoProgressReport(t *testing.T) {
	for answer, want := range map[string]*progressReport{
		"": nil, "\x07": nil, "\x07\x80": nil, "\x07\x02\x80": nil, "\x07\x02\x09": nil,
		"\x07\x02\x09\x05": {7, 2, 9, 5},
	} {
		got, ok := parseProgress([]byte(answer))
		require.Equal(t, want != nil, ok, "%q", answer)
		if ok {
			require.Equal(t, *want, got)
		}
	}
}

// How far keys may leave memory, by what the files of three voters have: a majority at least, and
// those that are not behind for long.
func TestKeysLeaveMemoryAsFarAsAMajorityHasThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &tiering{
			core: &core{log: testLog()}, keys: &keyTier{machine: newLedger(ShardBilling)},
		}
		d := demotion{tiering: g}
		at := func(want uint64, a, b, c uint64) {
			t.Helper()
			said := map[string]uint64{"a": a, "b": b, "c": c}
			require.Equal(t, want, d.through(100, said, 3))
		}
		at(100, 100, 200, 150)
		at(90, 100, 200, 90)
		time.Sleep(keysPatience - time.Second)
		at(95, 100, 200, 95)
		time.Sleep(time.Second)
		at(100, 100, 200, 96)
		at(98, 98, 200, 97)
		require.Equal(t, []string{"c"}, *g.keys.heldUp.Load())
		at(100, 100, 200, 100)
		at(97, 100, 200, 97)
		at(0, 0, 200, 0)
		time.Sleep(keysPatience)
		at(0, 0, 200, 0)
		require.Equal(t, []string{"a", "c"}, *g.keys.heldUp.Load())
		away := map[string]uint64{"a": 50, "b": 60}
		require.EqualValues(t, 50, d.through(100, away, 3), "c is away")
	})
}

// Keys leave memory once the files of the voters have them. Repeats are known through every node
// after that, after a restart of all, through a node that began with an empty folder, and in a
// cluster that was restored from a backup, whose files are made again.
func TestKeysLeaveMemory(t *testing.T) {
	inCluster(t, withKeys, func(c *nodes) {
		leader := c.withCustomer()
		lagging := c.others(leader)[0]
		c.recordMany(leader, 0, 1500)
		c.demoted(900)
		for _, id := range three {
			c.knows(id, 0, 1, 500, 1400)
			s := c.billing(id).Status().Keys
			require.Positive(t, s.OnDisk)
			require.Zero(t, s.Uncovered)
			require.Positive(t, s.FilterHits)
		}

		// A voter that is away does not keep keys in memory, and follows when it is back.
		c.stop(lagging)
		c.recordMany(leader, 1500, 3000)
		c.demoted(2000)
		c.start(lagging)
		c.demoted(2000)
		c.knows(lagging, 0, 1600, 2900)

		c.stopAll()
		for _, id := range three {
			c.start(id)
		}
		leader = c.leader()
		c.demoted(2000)
		for _, id := range three {
			c.knows(id, 3, 1999, 2999)
		}

		c.start("d")
		require.NoError(t, c.node[leader].Join(c.within(10*time.Second), memberOf("d")))
		c.demoted(2000)
		c.knows("d", 4, 1999, 2999)
		require.NoError(t, c.node["d"].Close())
		delete(c.node, "d")

		data := c.save(leader)
		c.stopAll()
		c.restoreAll(t.TempDir(), NewIdentity(), data)
		c.leader()
		c.demoted(2000)
		for _, id := range three {
			c.knows(id, 5, 1999, 2999)
		}
	})
}
