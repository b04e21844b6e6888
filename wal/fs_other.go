//go:build !linux

package wal

import "os"

// syncData is a full sync where there is no fdatasync that can be trusted (on darwin os.File.Sync
// is F_FULLFSYNC).
func syncData(f *os.File) error { return f.Sync() }
