package billing_test

import (
	"bytes"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine/billing"
)

// besideKeys is how many idempotency keys there are before BenchmarkApplyBesideSnapshot.
const besideKeys = 2_000_000

// standing is a disk that stands still for a while now and then, as one does that syncs what was
// written: 64 MiB in 300 ms.
type standing struct{ unsynced int }

func (s *standing) Write(b []byte) (int, error) {
	if s.unsynced += len(b); s.unsynced >= 64<<20 {
		s.unsynced = 0
		<-time.After(300 * time.Millisecond)
	}
	return len(b), nil
}

// BenchmarkApplyBesideSnapshot applies events of a million customers while snapshots are written to
// a slow disk, and without. The entries come at a pace, as they do from a log. It reports the
// longest Apply of both, and the mean.
func BenchmarkApplyBesideSnapshot(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	m, l := million()
	l.Stamp += 1000
	for range besideKeys / 100_000 {
		applyPaced(b, l, 100_000, nil)
	}
	var alone, beside longest
	for b.Loop() {
		applyPaced(b, l, 500_000, &alone)
		sn, err := m.Snapshot()
		require.NoError(b, err)
		done := make(chan error)
		go func() {
			_, err := sn.WriteTo(&standing{})
			done <- err
		}()
		for running := true; running; {
			applyPaced(b, l, 50_000, &beside)
			select {
			case err := <-done:
				require.NoError(b, err)
				running = false
			default:
			}
		}
		sn.Release()
	}
	for name, w := range map[string]*longest{"alone": &alone, "beside": &beside} {
		b.ReportMetric(w.wall.Seconds()*1e3, name+"-longest-ms")
		b.ReportMetric(w.processor.Seconds()*1e3, name+"-longest-cpu-ms")
		b.ReportMetric(w.sum.Seconds()*1e9/float64(w.work), name+"-cpu-ns/event")
	}
}

// applyPaced applies entries of events of a million customers, one each two milliseconds.
func applyPaced(b *testing.B, l *enginetest.Log, events int, w *longest) {
	b.Helper()
	entries, _ := usageEntries(l, 1_000_000, events)
	pace := time.NewTicker(2 * time.Millisecond)
	defer pace.Stop()
	for _, e := range entries {
		if w == nil {
			_, err := l.ApplyEntry(e)
			require.NoError(b, err)
			continue
		}
		<-pace.C
		began, used := time.Now(), threadTime(b)
		results, err := l.ApplyEntry(e)
		w.wall = max(w.wall, time.Since(began))
		used = threadTime(b) - used
		w.processor, w.sum = max(w.processor, used), w.sum+used
		w.work += len(results)
		require.NoError(b, err)
	}
}

// BenchmarkRestore restores a snapshot of a million customers and as many keys as besideKeys says.
func BenchmarkRestore(b *testing.B) {
	m, l := million()
	l.Stamp += 1000
	for range besideKeys / 100_000 {
		applyPaced(b, l, 100_000, nil)
	}
	var snapshot bytes.Buffer
	sn, err := m.Snapshot()
	require.NoError(b, err)
	_, err = sn.WriteTo(&snapshot)
	require.NoError(b, err)
	sn.Release()
	used := processorTime(b)
	for b.Loop() {
		require.NoError(b, billing.New(billing.Config{Together: together}).
			Restore(bytes.NewReader(snapshot.Bytes())))
	}
	used = processorTime(b) - used
	b.ReportMetric(used.Seconds()/float64(b.N), "cpu-s/restore")
}
