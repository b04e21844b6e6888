package wal_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"tollgate/wal"
)

// TestReadersBesideAWriter has the callers that raft has: one that appends and cuts suffixes, one
// that compacts, and several that read, through the cache and past it.
func TestReadersBesideAWriter(t *testing.T) {
	l, err := wal.Open(filepath.Join(t.TempDir(), "log"),
		wal.Options{SegmentBytes: 16 << 10, SpareBytes: 64 << 10, Logger: quiet()})
	require.NoError(t, err)
	cache := wal.NewCache(l, 20<<10)
	var stop atomic.Bool
	errs := make(chan error, 8)
	go func() { errs <- write(cache, &stop) }()
	go func() { errs <- compact(cache, &stop) }()
	for _, store := range []raft.LogStore{cache, l, l} {
		go func() { errs <- read(store, &stop) }()
	}
	for range 5 {
		require.NoError(t, <-errs)
	}
	require.NoError(t, l.Poisoned())
	require.NoError(t, l.Close())
}

func write(store raft.LogStore, stop *atomic.Bool) error {
	defer stop.Store(true)
	next, term := uint64(1), 1
	for round := range 200 {
		logs := make([]*raft.Log, 1+round%7)
		for i := range logs {
			logs[i] = record(next+uint64(i), term, 30+round)
		}
		if err := store.StoreLogs(logs); err != nil {
			return err
		}
		next += uint64(len(logs))
		if round%20 == 19 {
			term++
			if err := store.DeleteRange(next-3, next-1); err != nil {
				return err
			}
			next -= 3
		}
	}
	return nil
}

func compact(store raft.LogStore, stop *atomic.Bool) error {
	for !stop.Load() {
		first, err := store.FirstIndex()
		if err != nil {
			return err
		}
		last, err := store.LastIndex()
		if err != nil {
			return err
		}
		if last > first+100 {
			if err := store.DeleteRange(first, last-100); err != nil {
				return err
			}
		}
	}
	return nil
}

func read(store raft.LogStore, stop *atomic.Bool) error {
	for n := uint64(0); !stop.Load(); n++ {
		last, err := store.LastIndex()
		if err != nil {
			return err
		}
		index := last - min(last, n%150)
		var log raft.Log
		err = store.GetLog(index, &log)
		if errors.Is(err, raft.ErrLogNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		want := record(index, int(log.Term), len(log.Data))
		if log.Index != index || string(log.Data) != string(want.Data) {
			return fmt.Errorf("read %d, got %d with %q", index, log.Index, log.Data)
		}
	}
	return nil
}
