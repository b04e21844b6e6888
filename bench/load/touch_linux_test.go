package load_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"tollgate/bench/load"
)

// TestTouchingMemory: the kernel gives pages for all of it, and has them back afterwards.
func TestTouchingMemory(t *testing.T) {
	const size, hugePage = 128 << 20, 2 << 20
	require.NoError(t, load.TouchMemory(t.Context(), 0))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, load.TouchMemory(ctx, size), context.Canceled)

	var machine unix.Sysinfo_t
	require.NoError(t, unix.Sysinfo(&machine))
	if uint64(machine.Freeram)*uint64(machine.Unit) < 3*size {
		t.Log("not checked: little memory is free")
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	faults, mapped := pageFaults(t), mappedBytes(t)
	require.NoError(t, load.TouchMemory(t.Context(), size))
	require.GreaterOrEqual(t, pageFaults(t)-faults, int64(size/hugePage))
	require.Less(t, mappedBytes(t)-mapped, int64(size))
}

// pageFaults is how often the kernel gave this thread a page.
func pageFaults(t *testing.T) int64 {
	var usage unix.Rusage
	require.NoError(t, unix.Getrusage(unix.RUSAGE_THREAD, &usage))
	return int64(usage.Minflt)
}

// mappedBytes is how much of its address space this process uses.
func mappedBytes(t *testing.T) (n int64) {
	text, err := os.ReadFile("/proc/self/statm")
	require.NoError(t, err)
	_, err = fmt.Sscan(string(text), &n)
	require.NoError(t, err)
	return n * int64(os.Getpagesize())
}
