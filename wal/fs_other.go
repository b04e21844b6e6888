//go:build !linux

package wal

import (
	"errors"
	"os"
)

// syncData is a full sync where there is no fdatasync that can be trusted (on darwin os.File.Sync
// is F_FULLFSYNC).
func syncData(f *os.File) error { return f.Sync() }

// openDirect refuses: elsewhere every file goes through the page cache.
func openDirect(string, int) (*os.File, error) { return nil, errors.ErrUnsupported }
