package wal_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/bench/faultfs"
	"tollgate/wal"
)

// crashMachine runs random operations against a log on a disk that fails or loses its power at any
// operation, and compares the recovered log with the acknowledged records.
type crashMachine struct {
	disk    *faultfs.Disk
	log     *wal.Log // nil while the process is down
	records []*raft.Log
	// allowed judges the records found if not exactly records: the call that was interrupted.
	allowed func(found []*raft.Log) bool
	serial  int
	options wal.Options
}

func newCrashMachine(segmentBytes int64) *crashMachine {
	return &crashMachine{
		disk: faultfs.New(),
		options: wal.Options{
			SegmentBytes: segmentBytes, SpareBytes: 4 * segmentBytes, Logger: quiet(),
		},
	}
}

// failAt lets the n-th operation from now and all later ones fail with err.
func (m *crashMachine) failAt(n int, err error) {
	at := m.disk.Ops() + n
	m.disk.Inject(func(op faultfs.Op) error {
		switch {
		case op.N < at:
			return nil
		case op.N == at && op.Kind == faultfs.KindWrite:
			return &faultfs.ShortWrite{Keep: op.Bytes * (n % 5) / 4, Err: err}
		}
		return err
	})
}

func (m *crashMachine) next() uint64 {
	if len(m.records) == 0 {
		return uint64(1 + m.serial%97)
	}
	return m.records[len(m.records)-1].Index + 1
}

func (m *crashMachine) append(sizes []int) error {
	next := m.next()
	logs := make([]*raft.Log, len(sizes))
	for i, size := range sizes {
		m.serial++
		logs[i] = record(next+uint64(i), m.serial, size)
	}
	before := m.records
	after := append(slices.Clone(before), logs...)
	return m.settle(m.log.StoreLogs(logs), after, func(found []*raft.Log) bool {
		return len(found) >= len(before) && len(found) <= len(after) &&
			same(found, after[:len(found)])
	})
}

func (m *crashMachine) deletePrefix(n int) error {
	if n = min(n, len(m.records)); n == 0 {
		return nil
	}
	before, after := m.records, m.records[n:]
	err := m.log.DeleteRange(before[0].Index, before[n-1].Index)
	return m.settle(err, after, func(found []*raft.Log) bool {
		return same(found, before) || same(found, after)
	})
}

func (m *crashMachine) deleteSuffix(n int) error {
	if n = min(n, len(m.records)); n == 0 {
		return nil
	}
	before, keep := m.records, len(m.records)-n
	err := m.log.DeleteRange(before[keep].Index, before[len(before)-1].Index)
	return m.settle(err, before[:keep], func(found []*raft.Log) bool {
		return len(found) >= keep && len(found) <= len(before) && same(found, before[:len(found)])
	})
}

func (m *crashMachine) reset() error {
	before := m.records
	return m.settle(m.log.Reset(), nil, func(found []*raft.Log) bool {
		return same(found, before) || len(found) == 0
	})
}

// settle takes the outcome of a call: acknowledged, or interrupted with allowed remains.
func (m *crashMachine) settle(err error, after []*raft.Log, allowed func([]*raft.Log) bool) error {
	if err == nil {
		m.records, m.allowed = after, nil
		return nil
	}
	m.allowed = allowed
	return err
}

// reopen recovers and checks. An injected error means: still down.
func (m *crashMachine) reopen() error {
	m.options.FS = m.disk
	log, err := wal.Open(testDir, m.options)
	if err != nil {
		return err
	}
	found, err := contents(log)
	if err != nil {
		return errors.Join(err, log.Close())
	}
	ok := same(found, m.records)
	if m.allowed != nil {
		ok = m.allowed(found)
	}
	if !ok {
		return fmt.Errorf("found %s after acknowledging %s", span(found), span(m.records))
	}
	m.log, m.records, m.allowed = log, found, nil
	return nil
}

func contents(log *wal.Log) ([]*raft.Log, error) {
	first, err := log.FirstIndex()
	if err != nil || first == 0 {
		return nil, err
	}
	last, err := log.LastIndex()
	if err != nil {
		return nil, err
	}
	var found []*raft.Log
	for i := first; i <= last; i++ {
		r := new(raft.Log)
		if err := log.GetLog(i, r); err != nil {
			return nil, err
		}
		found = append(found, r)
	}
	return found, nil
}

func same(a, b []*raft.Log) bool {
	return slices.EqualFunc(a, b, func(x, y *raft.Log) bool {
		return x.Index == y.Index && x.Term == y.Term && x.Type == y.Type &&
			x.AppendedAt.Equal(y.AppendedAt) && string(x.Data) == string(y.Data) &&
			string(x.Extensions) == string(y.Extensions)
	})
}

func span(logs []*raft.Log) string {
	if len(logs) == 0 {
		return "nothing"
	}
	return fmt.Sprintf("%d to %d (newest term %d)",
		logs[0].Index, logs[len(logs)-1].Index, logs[len(logs)-1].Term)
}

func picker(seed uint64) func(int) int {
	return rand.New(rand.NewPCG(seed, 1)).IntN
}

// TestNothingAcknowledgedIsLostAtAnyCrash is the promise of the package as a property.
func TestNothingAcknowledgedIsLostAtAnyCrash(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newCrashMachine(int64(rapid.SampledFrom([]int{512, 1024, 4096, 1 << 20}).Draw(t, "seg")))
		require.NoError(t, m.reopen())
		// after deals with the outcome of a call that may have met a fault.
		after := func(err error) {
			if err == nil {
				return
			}
			if m.log != nil {
				require.Error(t, m.log.Poisoned())
				require.ErrorIs(t, m.log.StoreLog(record(1, 1, 1)), wal.ErrPoisoned)
			}
			m.log = nil
			if errors.Is(err, errIO) && rapid.Bool().Draw(t, "only the process dies") {
				m.disk.Kill()
				m.disk.Inject(nil)
			} else {
				m.disk.Crash(picker(rapid.Uint64().Draw(t, "crash")))
			}
		}
		up := func(action func()) func(*rapid.T) {
			return func(t *rapid.T) {
				if m.log == nil {
					err := m.reopen()
					if err != nil {
						require.True(t, errors.Is(err, errIO) || errors.Is(err, faultfs.ErrPowerOff),
							"%v", err)
					}
					after(err)
					return
				}
				action()
			}
		}
		count := func(name string, maximum int) int { return rapid.IntRange(1, maximum).Draw(t, name) }
		t.Repeat(map[string]func(*rapid.T){
			"append": up(func() {
				sizes := rapid.SliceOfN(rapid.IntRange(0, 1500), 1, 8).Draw(t, "sizes")
				after(m.append(sizes))
			}),
			"append one":    up(func() { after(m.append([]int{count("size", 300)})) }),
			"delete prefix": up(func() { after(m.deletePrefix(count("n", 20))) }),
			"delete suffix": up(func() { after(m.deleteSuffix(count("n", 20))) }),
			"reset":         up(func() { after(m.reset()) }),
			"close": up(func() {
				if err := m.log.Close(); err != nil {
					m.log = nil
					after(err)
					return
				}
				m.log = nil
			}),
			"power goes soon": func(*rapid.T) { m.failAt(count("ops", 30), faultfs.ErrPowerOff) },
			"disk fails soon": func(*rapid.T) { m.failAt(count("ops", 30), errIO) },
			"power goes now": func(*rapid.T) {
				m.log = nil
				m.disk.Crash(picker(rapid.Uint64().Draw(t, "crash")))
			},
			"kill": func(*rapid.T) { m.log = nil; m.disk.Kill() },
			"": func(t *rapid.T) {
				if m.log == nil {
					return
				}
				if found, err := contents(m.log); err == nil {
					require.True(t, same(found, m.records), "%s, not %s",
						span(found), span(m.records))
				}
			},
		})
	})
}

// script is a fixed life of a log that passes through every kind of change.
func script(m *crashMachine) error {
	steps := []func() error{
		func() error { return m.append([]int{100}) },
		func() error { return m.append([]int{700, 0, 30, 400}) },
		func() error { return m.append([]int{900, 900}) },
		func() error { return m.deleteSuffix(3) },
		func() error { return m.append([]int{60, 1200}) },
		func() error { return m.append([]int{300, 300}) },
		func() error { return m.deletePrefix(4) },
		func() error { return m.append([]int{10}) },
		m.reset,
		func() error { return m.append([]int{500, 500}) },
		func() error { return m.append([]int{500}) },
		func() error { return m.deletePrefix(1) },
		func() error { return m.append([]int{900}) },
		func() error { return m.append([]int{400, 400}) },
		func() error { return m.deletePrefix(3) },
		func() error { return m.append([]int{700}) }, // over what was there
		func() error { return m.append([]int{20, 20}) },
		func() error { return m.append([]int{800}) },
		func() error { return m.deleteSuffix(2) },
		func() error { return m.append([]int{100, 100}) },
		func() error { return m.append([]int{100}) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// TestCrashAtEveryOperation cuts the power at each operation of a script, and then at each
// operation of the recovery, and recovers again.
func TestCrashAtEveryOperation(t *testing.T) {
	whole := newCrashMachine(1024)
	require.NoError(t, whole.reopen())
	opened := whole.disk.Ops()
	require.NoError(t, script(whole))
	total := whole.disk.Ops() - opened
	require.Greater(t, total, 60)
	run := func(n int, seed uint64) *crashMachine {
		m := newCrashMachine(1024)
		require.NoError(t, m.reopen())
		m.failAt(n, faultfs.ErrPowerOff)
		require.ErrorIs(t, script(m), faultfs.ErrPowerOff)
		m.disk.Crash(picker(seed))
		return m
	}
	for n := 1; n <= total; n++ {
		for seed := range uint64(3) {
			for at := 1; ; at++ {
				m := run(n, seed)
				m.failAt(at, faultfs.ErrPowerOff)
				if m.reopen() == nil {
					break
				}
				m.disk.Crash(picker(seed + uint64(at)))
				require.NoError(t, m.reopen(), "operation %d, recovery operation %d", n, at)
				require.NoError(t, m.append([]int{50, 50}))
				m.disk.Crash(nil)
				require.NoError(t, m.reopen(), "operation %d, recovery operation %d", n, at)
			}
		}
	}
}
