package cluster

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"tollgate/bench/faultfs"
	"tollgate/engine/journal"
)

// changeEverything opens a group's files, changes each kind of them, and closes them.
func changeEverything(c *Config, dir string, fatal func(error)) error {
	st, err := openStores(c, dir, fileNotices{fatal: fatal})
	if err != nil {
		return err
	}
	steps := []func() error{
		func() error { return st.vote.SetUint64(termKey, 3) },
		func() error {
			var logs []*raft.Log
			for i := uint64(1); i <= 20; i++ {
				logs = append(logs, &raft.Log{Index: i, Term: 3, Data: make([]byte, 300<<10)})
			}
			return st.log.StoreLogs(logs)
		},
		func() error { return save(st.snapshots, 18, make([]byte, 5000)) },
		func() error { return st.log.DeleteRange(1, 17) },
		func() error { return st.log.DeleteRange(20, 20) },
		func() error { return putSegment(st, fatal) },
		st.markRebuild,
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	if err := st.Close(); err != nil {
		return err
	}
	if st, err = openStores(c, dir, fileNotices{fatal: fatal}); err != nil { // removes the mark
		return err
	}
	return st.Close()
}

// putSegment writes one journal segment and waits for it.
func putSegment(st *stores, fatal func(error)) error {
	s, infos, err := openWithSegment(st, fatal, true)
	if err != nil {
		return err
	}
	return s.WaitDurable(context.Background(), infos)
}

// openWithSegment opens the segments of a journal that has one, and puts it there or not.
func openWithSegment(
	st *stores, fatal func(error), put bool,
) (s Segments, infos []journal.SegmentInfo, err error) {
	j := journal.New()
	j.Append(journal.Record{Kind: journal.KindAudit, Owner: 1, At: 1, Payload: []byte("x")})
	sealed, _ := j.Expire(time.Hour.Milliseconds(), 2*time.Hour.Milliseconds(), j.EndEntry(1, nil))
	m := newLedger(0)
	m.journal = j
	none := func(journal.Record, func(uint32, int64, uint32)) {}
	if s, err = st.openSegments(Shard{Machine: m, Indexer: none}, fatal); err != nil {
		return nil, nil, err
	}
	for _, one := range sealed {
		if put {
			s.Put(one)
		}
		infos = append(infos, one.SegmentInfo)
	}
	return s, infos, nil
}

// A segment that is on disk by its store's word, so that the log before it may go, outlives a power
// cut by itself: the other nodes may lose theirs at the same moment.
func TestSegmentAtEveryCrash(t *testing.T) {
	durable := 0
	for n := 1; n <= 40; n++ {
		for seed := range uint64(4) {
			disk := newVoteDisk(t)
			st := &stores{files: disk, dir: voteDir}
			at := disk.Ops() + n
			// Without power nobody waits any more.
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			powered, cut := context.WithCancelCause(ctx)
			disk.Inject(func(op faultfs.Op) error {
				if op.N >= at {
					cut(faultfs.ErrPowerOff)
					return faultfs.ErrPowerOff
				}
				return nil
			})
			s, infos, err := openWithSegment(st, func(error) {}, true)
			if err == nil {
				err = s.WaitDurable(powered, infos)
			}
			cancel()
			require.NotErrorIs(t, err, context.DeadlineExceeded)
			if s != nil {
				if cerr := s.Close(); cerr != nil {
					require.ErrorIs(t, cerr, faultfs.ErrPowerOff)
				}
			}
			disk.Crash(rand.New(rand.NewPCG(seed, uint64(n))).IntN)
			again, infos, rerr := openWithSegment(
				&stores{files: disk, dir: voteDir}, func(err error) { t.Error(err) }, false)
			require.NoError(t, rerr)
			if err == nil {
				durable++
				require.Empty(t, again.Missing(), "operation %d, seed %d", n, seed)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				require.NoError(t, again.WaitDurable(ctx, infos))
				cancel()
			}
			require.NoError(t, again.Close())
		}
	}
	require.Positive(t, durable)
}

// Whatever operation on whatever file the disk does not answer: after StoreTimeout, and not before,
// the process ends and says where it waited.
func TestDiskThatHangsAtAnyFileEndsTheProcess(t *testing.T) {
	dir := filepath.Join(voteDir, "x")
	changes := func(op faultfs.Op) bool {
		switch op.Kind {
		case faultfs.KindRead, faultfs.KindOpen, faultfs.KindList, faultfs.KindMkdir:
			return false
		}
		return true
	}
	config := Config{Log: testLog(), Timeouts: Timeouts{StoreTimeout: 10 * time.Second}}
	disk, kinds, total := faultfs.New(), make(map[string]bool), 0
	disk.Inject(func(op faultfs.Op) error {
		if changes(op) {
			total++
			kinds[fileKind(op.Name)] = true
		}
		return nil
	})
	config.FS = disk
	require.NoError(t, changeEverything(&config, dir, func(err error) { require.NoError(t, err) }))
	require.Greater(t, total, 40)
	for _, kind := range []string{"log", "manifest", "vote", "snapshot", "segment", "index", "mark"} {
		require.True(t, kinds[kind], kind)
	}
	for at := 1; at <= total; at++ {
		synctest.Test(t, func(t *testing.T) {
			config, disk := config, faultfs.New()
			config.FS = disk
			var seen atomic.Int64
			var hung atomic.Pointer[faultfs.Op]
			release := make(chan struct{})
			disk.Inject(func(op faultfs.Op) error {
				if changes(op) && seen.Add(1) == int64(at) {
					hung.Store(&op)
					<-release
				}
				return nil
			})
			fatal := make(chan error, 10)
			done := make(chan error)
			go func() { done <- changeEverything(&config, dir, func(err error) { fatal <- err }) }()
			begin := time.Now()
			err := <-fatal
			require.Equal(t, config.StoreTimeout, time.Since(begin))
			require.ErrorContains(t, err, "the disk has not answered for 10s")
			require.ErrorContains(t, err, hung.Load().Name)
			close(release)
			require.NoError(t, <-done)
			require.Empty(t, fatal)
		})
	}
}
