//go:build !linux

package peer

import (
	"errors"
	"os"
	"sync/atomic"
	"syscall"
)

// endWithParent cannot be had here: what a killed harness leaves behind has to be stopped by hand.
func endWithParent(*syscall.SysProcAttr) {}

// syncData makes a file's contents durable.
func syncData(file *os.File) error { return file.Sync() }

// withSlack starts a program.
func withSlack(start func() error) error { return start() }

// floorLog needs Linux.
type floorLog struct{ syncs atomic.Uint64 }

var errFloor = errors.New("floor: of Linux only")

func openFloorLog(string) (*floorLog, error) { return nil, errFloor }

func (l *floorLog) append([]byte) error { return errFloor }
