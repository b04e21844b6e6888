//go:build linux && namespaces

package faultnet

import (
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// in runs what opens sockets in a node's namespace.
func in(t *testing.T, n *Namespaces, id string, open func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // for good
		err := n.Enter(id)
		if err == nil {
			err = open()
		}
		done <- err
	}()
	return <-done
}

// Packets between nodes in namespaces get lost, one way or both, and cables are pulled; mended, all
// of it arrives. It needs the right to make namespaces, and runs before `make torture`.
func TestNamespacesLosePackets(t *testing.T) {
	if !Enclosed() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		again := exec.Command(os.Args[0], os.Args[1:]...)
		again.Stdout, again.Stderr = os.Stdout, os.Stderr
		Enclose(again)
		require.NoError(t, again.Start(), "network namespaces need root, or user namespaces")
		require.NoError(t, again.Wait())
		return
	}
	n, err := OpenNamespaces([]string{"a"})
	require.NoError(t, err)
	require.NoError(t, n.Close(), "there may be another after it")
	n, err = OpenNamespaces([]string{"a", "b", "c"})
	require.NoError(t, err)
	defer func() { require.NoError(t, n.Close()) }()
	w := &two{t: t, ends: map[string]net.Conn{}}
	address := n.Address("b") + ":7000"
	require.NoError(t, in(t, n, "b", func() (err error) {
		w.b, err = net.Listen("tcp", address)
		return err
	}))
	defer func() { require.NoError(t, w.b.Close()) }()
	dial := func(at string) error {
		return in(t, n, at, func() error {
			conn, err := net.DialTimeout("tcp", address, patience)
			if err == nil {
				w.ends["a"] = conn
				t.Cleanup(func() { require.NoError(t, conn.Close()) })
			}
			return err
		})
	}
	require.NoError(t, dial("a"))
	w.accept()
	w.send("a", "hello")
	w.receives("b", "hello")
	t.Run("one way", func(t *testing.T) {
		n.Hold("a", "b")
		n.Hold("a", "b")
		w.send("a", "late")
		w.receivesNothing("b")
		w.send("b", "through")
		w.receives("a", "through")
		n.Mend()
		w.receives("b", "late")
	})
	t.Run("both ways", func(t *testing.T) {
		n.Isolate("a")
		w.send("a", "x")
		w.receivesNothing("b")
		w.send("b", "y")
		w.receivesNothing("a")
		require.NoError(t, dial("c"), "the others reach each other")
		w.b.(*net.TCPListener).SetDeadline(time.Now().Add(patience))
		other, err := w.b.Accept()
		require.NoError(t, err)
		require.NoError(t, other.Close())
		n.Mend()
	})
	t.Run("broken", func(t *testing.T) {
		require.NoError(t, dial("a"))
		w.accept()
		n.Break("a", "b")
		w.hasEnded(w.ends["a"])
		w.hasEnded(w.ends["b"])
	})
	t.Run("unplugged", func(t *testing.T) {
		n.Unplug("a")
		require.ErrorIs(t, dial("a"), syscall.ENETUNREACH)
		n.Mend()
		require.NoError(t, dial("a"))
	})
}
