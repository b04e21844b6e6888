package cluster

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/faultfs"
	"tollgate/engine"
	"tollgate/wal"
)

// What a folder lacks, by its starts and its marks.
func TestJudgeAFolder(t *testing.T) {
	ids := func(count uint64, names ...string) starts { return starts{count, names} }
	billing := func(m mark) [2]mark { return [2]mark{ShardBilling: m} }
	was := mark{Term: 5, Vote: 7, LastTerm: 5, Last: 100, Committed: 90}
	heard := memberPast{Count: 2, Start: "s2", Marks: billing(was)}
	for name, row := range map[string]struct {
		known memberPast
		said  claim
		lacks string
	}{
		"heard of for the first time": {memberPast{}, claim{ids(1, "s1"), billing(was)}, ""},
		"the same process":            {heard, claim{ids(2, "s1", "s2"), billing(mark{})}, ""},
		"the next start":              {heard, claim{ids(3, "s1", "s2", "s3"), billing(was)}, ""},
		"starts in between that nobody heard of": {
			heard, claim{ids(5, "s1", "s2", "s3", "s4", "s5"), billing(was)}, "",
		},
		"more starts than are kept": {heard, claim{ids(70, "s69", "s70"), billing(was)}, ""},
		"a copy of before the start": {
			heard,
			claim{ids(2, "s1", "x2"), billing(was)},
			"start 2 (s2), and has another one in its place (x2)",
		},
		"a copy of long before": {
			heard, claim{ids(1, "x1"), billing(was)}, "start 2, and this folder was started 1 times",
		},
		"a copy, started again and again": {
			heard,
			claim{ids(4, "s1", "x2", "x3", "x4"), billing(was)},
			"start 2 (s2), and has another one in its place (x2)",
		},
		"a copy of since the start": {
			heard,
			claim{ids(3, "s1", "s2", "s3"), billing(mark{Term: 4, LastTerm: 4, Last: 80})},
			"in group billing term 5, and has term 4",
		},
		"another vote": {
			heard,
			claim{
				ids(3, "s1", "s2", "s3"),
				billing(mark{Term: 5, Vote: 8, LastTerm: 5, Last: 100}),
			},
			"in group billing its vote in term 5",
		},
		"no vote": {
			heard,
			claim{ids(3, "s1", "s2", "s3"), billing(mark{Term: 5, LastTerm: 5, Last: 100})},
			"in group billing its vote in term 5",
		},
		"a later term": {
			heard, claim{ids(3, "s1", "s2", "s3"), billing(mark{Term: 6, LastTerm: 4, Last: 95})}, "",
		},
		"a later term, without what was committed": {
			heard,
			claim{ids(3, "s1", "s2", "s3"), billing(mark{Term: 6, LastTerm: 6, Last: 89})},
			"in group billing entries up to 90, which are committed, and has entries up to 89",
		},
		"a shorter log in the leader's own term": {
			heard,
			claim{
				ids(3, "s1", "s2", "s3"),
				billing(mark{Term: 5, Vote: 7, LastTerm: 5, Last: 99}),
			},
			"in group billing entries up to 100, which it acknowledged in term 5, and has entries up " +
				"to 99",
		},
		"entries of an earlier leader, taken back by this one": {
			memberPast{
				Count: 2, Start: "s2",
				Marks: billing(mark{Term: 5, LastTerm: 4, Last: 100, Committed: 90}),
			},
			claim{ids(3, "s1", "s2", "s3"), billing(mark{Term: 5, LastTerm: 3, Last: 92})},
			"",
		},
		"the other group": {
			memberPast{Count: 2, Start: "s2", Marks: [2]mark{ShardWorkspace: {Term: 2}}},
			claim{ids(3, "s1", "s2", "s3"), [2]mark{ShardWorkspace: {Term: 1}}},
			"in group workspace term 2, and has term 1",
		},
	} {
		require.Equal(t, row.lacks, judge(row.known, row.said), name)
	}
}

// In whatever order marks of one process are heard, what is known is the newest, and nothing that
// it kept is ever missing in a later one.
func TestMarksAreHeardInAnyOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var history []mark
		now := mark{Term: 1}
		for range 12 {
			switch random.IntN(5) {
			case 0: // a new term
				now.Term++
				now.Vote = 0
			case 1:
				if now.Vote == 0 {
					now.Vote = uint64(random.IntN(3))
				}
			case 2: // its leader's entries, which may take the place of others
				if now.LastTerm < now.Term {
					now.Last = now.Committed + uint64(random.IntN(int(now.Last-now.Committed)+1))
				}
				now.LastTerm, now.Last = now.Term, now.Last+1
			case 3:
				if now.LastTerm == now.Term {
					now.Committed = now.Last
				}
			case 4: // entries are taken back, and the others have not come yet
				if now.LastTerm < now.Term && now.Last > now.Committed {
					now.Last--
					now.LastTerm = min(now.LastTerm, now.Term-1)
				}
			}
			history = append(history, now)
		}
		var heard mark
		for _, i := range random.Perm(len(history)) {
			if random.IntN(3) > 0 {
				heard = heard.and(history[i])
			}
		}
		require.Empty(t, heard.missingIn(now), "%+v of %+v", heard, history)
	}
}

func openTestPast(disk *faultfs.Disk) (*past, error) {
	return openPast(disk, "/data", memberOf("a"), "d1", [2]mark{}, testLog())
}

// The power goes at each operation of a start, and at each one of the start after that: every start
// that was told to somebody is in the file, and counts.
func TestStartsAtEveryCrash(t *testing.T) {
	for n := 1; n <= 12; n++ {
		for seed := range uint64(8) {
			pick := rand.New(rand.NewPCG(seed, uint64(n))).IntN
			disk := faultfs.New()
			require.NoError(t, disk.MkdirAll("/data"))
			first, err := openTestPast(disk)
			require.NoError(t, err)
			told := []claim{first.claimed}
			_, err = first.admit("b", "d2", claim{starts{1, []string{"b1"}}, [2]mark{{Term: 3}}})
			require.NoError(t, err)
			disk.Kill()
			for range 2 {
				at := disk.Ops() + n
				disk.Inject(func(op faultfs.Op) error {
					switch {
					case op.N < at:
						return nil
					case op.N == at && op.Kind == faultfs.KindWrite:
						return &faultfs.ShortWrite{Keep: op.Bytes / 3, Err: faultfs.ErrPowerOff}
					}
					return faultfs.ErrPowerOff
				})
				if p, err := openTestPast(disk); err == nil {
					told = append(told, p.claimed)
				}
				disk.Crash(pick)
			}
			last, err := openTestPast(disk)
			require.NoError(t, err)
			for _, c := range told {
				k := memberPast{Count: c.Starts.Count, Start: c.Starts.newest()}
				require.Empty(t, judge(k, last.claimed), "operation %d, seed %d", n, seed)
			}
			require.Equal(t, uint64(3), last.content.Known["b"].Marks[0].Term, "what was noted")
		}
	}
}

// A greeting is answered when the other member's start is on disk, also when another connection has
// noted that start and is still writing it.
func TestAGreetingWaitsForTheNoteOfItsStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := faultfs.New()
		require.NoError(t, disk.MkdirAll("/data"))
		p, err := openTestPast(disk)
		require.NoError(t, err)
		disk.Inject(func(faultfs.Op) error {
			time.Sleep(time.Second)
			return nil
		})
		answered := make(chan struct{}, 2)
		for range 2 {
			go func() {
				lacks, err := p.admit("b", "d2", claim{starts{1, []string{"b1"}}, [2]mark{}})
				require.NoError(t, err)
				require.Empty(t, lacks)
				answered <- struct{}{}
			}()
		}
		time.Sleep(time.Second / 2)
		synctest.Wait()
		require.Empty(t, answered, "it is being written")
		time.Sleep(time.Minute)
		require.Len(t, answered, 2)
	})
}

// One damaged copy is repaired from the other; with both gone, the node refuses and says how to
// rejoin.
func TestDamagedStarts(t *testing.T) {
	disk := faultfs.New()
	require.NoError(t, disk.MkdirAll("/data"))
	p, err := openTestPast(disk)
	require.NoError(t, err)
	require.NoError(t, p.close())
	name := filepath.Join("/data", pastName)
	for copy := range 2 {
		require.NoError(t, disk.Corrupt(name, func(b []byte) []byte {
			b[copy*pastTwin.copyBytes+40] ^= 1
			return b
		}))
		again, err := openTestPast(disk)
		require.NoError(t, err)
		require.Empty(t, judge(memberPast{Count: 1, Start: p.claimed.Starts.newest()}, again.claimed))
		require.NoError(t, again.close())
	}
	require.NoError(t, disk.Corrupt(name, func(b []byte) []byte { return make([]byte, len(b)) }))
	_, err = openTestPast(disk)
	require.ErrorIs(t, err, ErrDamaged)
	require.ErrorContains(t, err, wal.Rejoin)
}

// keepCopy copies the folder of a node that is off, and putBack puts such a copy in its place.
func (c *nodes) keepCopy(id string) (copied string) {
	copied = filepath.Join(c.t.TempDir(), id)
	require.NoError(c.t, os.CopyFS(copied, os.DirFS(filepath.Join(c.dir, id))))
	return copied
}

func (c *nodes) putBack(id, copied string) {
	c.wipe(id)
	require.NoError(c.t, os.CopyFS(filepath.Join(c.dir, id), os.DirFS(copied)))
}

// refused waits until a node ends because its folder is an older copy, and takes it away.
func (c *nodes) refused(id string) error {
	c.t.Helper()
	c.eventually("it is refused", func() bool { return len(c.fatals(id)) > 0 })
	err := c.fatals(id)[0]
	require.ErrorIs(c.t, err, ErrPutBack)
	require.Equal(c.t, ExitFatal, ExitCode(err))
	c.stop(id)
	delete(c.fatal, id)
	return err
}

// The folder of a node is put back to what it was before its newest start. One other member is
// there, and has heard of that start; the one that has the entries is away. The node is refused, at
// every start, and what was acknowledged is still there when the other one comes back.
func TestAFolderOfBeforeAStartIsRefused(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		c.known()
		c.stop("a")
		copied := c.keepCopy("a")
		c.start("a")
		c.leader()
		c.stop("c") // which has heard of a's second start
		c.count(c.leader(), keyRange(1, 50)...)
		c.stop("a")
		c.stop("b")
		c.putBack("a", copied)

		c.start("c")
		c.start("a")
		err := c.refused("a")
		require.ErrorContains(t, err, filepath.Join(c.dir, "a")+" lacks start 2")
		require.ErrorContains(t, err, "says c")
		require.ErrorContains(t, err, "tollgate cluster remove a")
		require.ErrorContains(t, err, "tollgate cluster join a --raft a:7000")
		for range 2 { // no start is refused often enough to be taken, though nobody can be asked
			_, err = LookAtFolder(c.config("a").Dir, "a", "", false)
			require.ErrorIs(t, err, ErrPutBack, "doctor says so before the start")
			_, err = Open(c.config("a"))
			require.ErrorIs(t, err, ErrPutBack)
			require.True(t, RefusesFolder(err))
		}
		require.Equal(t, engine.OutcomeUnavailable, c.propose("c", time.Second, 1)[0])

		c.start("b")
		leader := c.leader()
		for _, key := range keyRange(1, 50) {
			c.eventually("it is there", func() bool { return c.ledgers[leader].has(key) })
		}
		// What the refusal said.
		require.NoError(t, c.node[leader].Remove(c.within(10*time.Second), "a"))
		c.wipe("a")
		c.joins["a"] = true
		c.join("a", leader)
		c.count("a", 1000)
		c.converge()
	})
}

// A copy that was made since the newest start: the starts say nothing, and what the others have
// news of its promises does.
func TestAFolderOfSinceAStartIsRefused(t *testing.T) {
	for name, less := range map[string]func(c *nodes){
		"entries": func(c *nodes) { c.count(c.leader(), keyRange(1, 50)...) },
		"a term, and with it a vote": func(c *nodes) {
			leader := c.leader()
			to := c.others(leader)[0]
			require.NoError(c.t, c.node[leader].Transfer(c.within(10*time.Second), to))
			c.eventually("it leads", func() bool { _, ok := c.billing(to).Leads(); return ok })
		},
	} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, nil, func(c *nodes) {
				c.known()
				c.leader()
				time.Sleep(2 * time.Second)
				copied := c.keepCopy("a") // as it runs
				less(c)
				time.Sleep(2 * time.Second) // whoever does not lead hears of it once a second
				c.stop("a")
				c.stop("b")
				c.putBack("a", copied)
				c.start("a")
				require.ErrorContains(t, c.refused("a"), "in group billing")
				c.start("b")
				c.leader()
			})
		})
	}
}

// Half of a folder that was put back is found by the other half.
func TestHalfOfAFolderIsNotPutBack(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		c.known()
		c.stop("a")
		copied := c.keepCopy("a")
		c.start("a")
		c.count(c.leader(), keyRange(1, 50)...)
		c.converge()
		time.Sleep(2 * time.Second)
		c.stop("a")
		billing := filepath.Join(c.dir, "a", "billing")
		require.NoError(t, os.RemoveAll(billing))
		require.NoError(t, os.CopyFS(billing, os.DirFS(filepath.Join(copied, "billing"))))
		_, err := Open(c.config("a"))
		require.ErrorIs(t, err, ErrPutBack)
		require.ErrorContains(t, err, "in group billing")
	})
}

// What must not be refused: starts of one after the other, of all at once, that die before they are
// told to anybody or before their groups run, a disk whose last write was torn, and peers that
// know nothing.
func TestLegitimateStartsAreNotRefused(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		c.known()
		ok := func() {
			t.Helper()
			c.count(c.leader(), uint64(time.Now().UnixNano()))
			c.converge()
			for _, id := range three {
				require.Empty(t, c.fatals(id))
			}
		}
		for _, id := range three {
			c.kill(id)
			c.start(id)
			ok()
		}
		for range 3 {
			c.stopAll()
			for _, id := range three {
				c.start(id)
			}
			ok()
		}
		// Starts that reach nobody.
		c.stop("a")
		c.net.isolate(addressOf("a"))
		for range 3 {
			c.start("a")
			c.stop("a")
		}
		c.net.mend()
		c.start("a")
		ok()
		// A start that dies before the groups run: its number is in the file, and it was told.
		c.stop("a")
		config := c.config("a")
		for range 2 {
			p, err := openPast(wal.OS(), config.Dir, memberOf("a"), c.disk("a"), c.openedMarks("a"), testLog())
			require.NoError(t, err)
			lacks, err := c.node["b"].past.Load().admit("a", c.disk("a"), p.claimed)
			require.NoError(t, err)
			require.Empty(t, lacks)
			require.NoError(t, p.close())
		}
		c.start("a")
		ok()
		// A peer that knows it from long ago.
		c.stop("c")
		for range maxStarts + 3 {
			c.stop("a")
			c.start("a")
		}
		c.start("c")
		ok()
	})
}

// disk is the identity of the folder of a node that may be off.
func (c *nodes) disk(id string) string {
	i, err := readIdentity(filepath.Join(c.dir, id), id)
	require.NoError(c.t, err)
	return i.Disk
}

// openedMarks are what the files of a node that is off hold.
func (c *nodes) openedMarks(id string) (opened [2]mark) {
	for i, name := range groupNames {
		config := Config{Log: testLog(), FS: wal.OS(), Timeouts: Timeouts{StoreTimeout: time.Minute}}
		st, err := openStores(&config, filepath.Join(c.dir, id, name), fileNotices{})
		require.NoError(c.t, err)
		opened[i], err = st.opened()
		require.NoError(c.t, err)
		require.NoError(c.t, st.Close())
	}
	return opened
}
