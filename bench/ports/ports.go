// Package ports gives TCP ports to tests and measurements that start nodes on this machine. All
// harnesses take theirs here, so that two at the same time share none.
package ports

import (
	"errors"
	"fmt"
	"net"
	"os"
)

// The ports lie below those that the system gives to outgoing connections (Linux: from 32768 on).
const (
	lowest = 10_000
	size   = 32 // of a block; its first port is the guard
	blocks = 700
)

// Block is some ports in a row on 127.0.0.1.
type Block struct {
	First int
	guard net.Listener
}

// Take finds count ports in a row that are free. No other process is given them before Close, or
// before this one ends: until then it listens on a port that only Take uses.
func Take(count int) (*Block, error) {
	if count >= size {
		return nil, fmt.Errorf("ports: %d in a row; a block has %d", count, size-1)
	}
	for try := range blocks {
		first := lowest + (os.Getpid()+try)%blocks*size
		guard, err := listen(first)
		if err != nil {
			continue
		}
		if free(first+1, count) {
			return &Block{First: first + 1, guard: guard}, nil
		}
		if err = guard.Close(); err != nil {
			return nil, fmt.Errorf("ports: %w", err)
		}
	}
	return nil, errors.New("ports: none are free")
}

// OfTest is Take for a test, with Close at its end. It returns the first port.
func OfTest(t test, count int) int {
	t.Helper()
	b, err := Take(count)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b.First
}

type test interface {
	Helper()
	Cleanup(func())
	Error(arguments ...any)
	Fatal(arguments ...any)
}

// Close lets others have the ports.
func (b *Block) Close() error { return b.guard.Close() }

func free(first, count int) bool {
	for port := first; port < first+count; port++ {
		listener, err := listen(port)
		if err != nil || listener.Close() != nil {
			return false
		}
	}
	return true
}

func listen(port int) (net.Listener, error) {
	return net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
}
