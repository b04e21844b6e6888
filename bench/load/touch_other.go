//go:build !linux

package load

import "context"

// TouchMemory does nothing: that a host takes back free memory was seen on Linux.
func TouchMemory(ctx context.Context, _ uint64) error { return ctx.Err() }
