//go:build !linux

package bench

import "time"

// sleep sleeps. It may be late by as much as a millisecond.
func sleep(d time.Duration) { time.Sleep(d) }
