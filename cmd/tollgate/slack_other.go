//go:build !linux

package main

// loosenTimers does something on Linux only.
func loosenTimers() error { return nil }
