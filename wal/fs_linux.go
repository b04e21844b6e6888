package wal

import (
	"os"
	"syscall"
)

func syncData(f *os.File) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var syncErr error
	err = conn.Control(func(fd uintptr) {
		for {
			if syncErr = syscall.Fdatasync(int(fd)); syncErr != syscall.EINTR {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	return os.NewSyscallError("fdatasync", syncErr)
}

// openDirect opens a file past the page cache.
func openDirect(name string, flag int) (*os.File, error) {
	return os.OpenFile(name, flag|syscall.O_DIRECT, 0)
}
