//go:build !linux

package load

import "time"

// sleep sleeps. It may be late by as much as a millisecond.
func sleep(d time.Duration) { time.Sleep(d) }
