package page

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// writing runs changes on another goroutine until the returned function is called, which returns
// how many there were. It returns after the first.
func writing(f *fixture, seed uint64) (stop func() int) {
	quit, done, began := make(chan struct{}), make(chan int), make(chan struct{})
	go func() {
		rng := rand.New(rand.NewPCG(seed, 1))
		for n := 0; ; n++ {
			select {
			case <-quit:
				done <- n
				return
			default:
				f.change(rng.Uint64())
				if n == 0 {
					close(began)
				}
			}
		}
	}()
	<-began
	return func() int { close(quit); return <-done }
}

func TestASnapshotIsTheStateAtBeginWhileTheWriterWrites(t *testing.T) {
	f := newFixture()
	f.grow(20_000)
	for round := range uint64(6) {
		want := f.contents()
		sn := f.store.Begin()
		stop := writing(f, round)
		var buf bytes.Buffer
		_, err := sn.WriteTo(&buf)
		require.NoError(t, err)
		require.Positive(t, stop())
		sn.Release()
		require.NotEqual(t, want, f.contents())
		require.Equal(t, want, restored(t, buf.Bytes()).contents())
	}
}

// gate is a writer that blocks before its first write.
type gate struct {
	bytes.Buffer
	open chan struct{}
	err  error
}

func (g *gate) Write(b []byte) (int, error) {
	<-g.open
	if g.err != nil {
		return 0, g.err
	}
	return g.Buffer.Write(b)
}

func TestAWriterThatIsFarAheadWaitsForTheDisk(t *testing.T) {
	const rows = (handedPages + 500) * 4
	f := newFixture()
	f.grow(rows)
	want := f.contents()
	sn := f.store.Begin()
	disk := &gate{open: make(chan struct{})}
	written, changed := make(chan error), make(chan struct{})
	go func() {
		_, err := sn.WriteTo(disk)
		written <- err
	}()
	go func() {
		for row := uint32(1); row <= rows; row++ {
			f.accounts.Write(row).Balance = -1
		}
		close(changed)
	}()
	require.Eventually(t, func() bool { return sn.handed.count.Load() == handedPages },
		10*time.Second, time.Millisecond)
	select {
	case <-changed:
		t.Fatal("the writer went on although the queue was full")
	default:
	}
	close(disk.open)
	<-changed
	require.NoError(t, <-written)
	require.Equal(t, want, restored(t, disk.Bytes()).contents())
	require.Nil(t, f.accounts.kept.(*kept[account]).free, "the copies are given back")
}

func TestADiskThatStandsStillHoldsUpNobodyWhoChangesAQuarter(t *testing.T) {
	const changes = handedPages + 1000
	f := newFixture()
	f.grow(handedShare * changes * 4)
	sn := f.store.Begin()
	disk := &gate{open: make(chan struct{})}
	written, changed := make(chan error), make(chan struct{})
	go func() {
		_, err := sn.WriteTo(disk)
		written <- err
	}()
	go func() {
		for page := range uint32(changes) {
			f.accounts.Write(handedShare*4*page + 1).Balance = -1
		}
		close(changed)
	}()
	select {
	case <-changed:
	case <-time.After(time.Minute):
		t.Error("the writer waits for the disk")
	}
	close(disk.open)
	require.NoError(t, <-written)
	before := restored(t, disk.Bytes())
	for page := range uint32(changes) {
		row := handedShare*4*page + 1
		require.EqualValues(t, row, before.accounts.Read(row).Balance)
	}
}

func TestReleaseLetsAWaitingWriterGoOn(t *testing.T) {
	const rows = (handedPages + 10) * 4
	f := newFixture()
	f.grow(rows)
	sn := f.store.Begin()
	changed := make(chan struct{})
	go func() {
		for row := uint32(1); row <= rows; row++ {
			f.accounts.Write(row).Balance = -1
		}
		close(changed)
	}()
	require.Eventually(t, func() bool { return sn.handed.count.Load() == handedPages },
		10*time.Second, time.Millisecond)
	sn.Release()
	<-changed
	_, err := sn.WriteTo(io.Discard)
	require.ErrorIs(t, err, ErrReleased)
	require.Equal(t, f.contents(), restored(t, f.snapshot(t)).contents())
}

func TestReleaseStopsAWriteThatRuns(t *testing.T) {
	f := newFixture()
	f.grow(60_000)
	for _, wait := range []bool{false, true} {
		sn := f.store.Begin()
		disk := &gate{open: make(chan struct{})}
		written, released := make(chan error, 1), make(chan struct{})
		go func() {
			_, err := sn.WriteTo(disk)
			written <- err
		}()
		go func() {
			sn.Release()
			close(released)
		}()
		if wait {
			<-sn.handed.stop
		}
		close(disk.open)
		<-released
		if err := <-written; err != nil {
			require.ErrorIs(t, err, ErrReleased)
		}
		require.Nil(t, f.store.running.Load())
	}
	require.Equal(t, f.contents(), restored(t, f.snapshot(t)).contents())
}

func TestAFailedWriteEndsTheSnapshot(t *testing.T) {
	f := newFixture()
	f.grow(50_000)
	broken := errors.New("no space left")
	disk := &gate{open: make(chan struct{}), err: broken}
	close(disk.open)
	sn := f.store.Begin()
	stop := writing(f, 3)
	_, err := sn.WriteTo(disk)
	require.ErrorIs(t, err, broken)
	require.Positive(t, stop())
	sn.Release()
	require.Equal(t, f.contents(), restored(t, f.snapshot(t)).contents())
}

func TestOneSnapshotAtATime(t *testing.T) {
	f := newFixture()
	sn := f.store.Begin()
	require.Panics(t, func() { f.store.Begin() })
	require.Panics(t, func() { require.NoError(t, f.store.Restore(bytes.NewReader(nil))) })
	sn.Release()
	sn.Release()
	next := f.store.Begin()
	sn.Release() // of an old snapshot, changes nothing
	require.Same(t, next, f.store.running.Load())
	next.Release()
}
