//go:build !linux

package dev

import "syscall"

// childAttributes put a child into a process group of its own. Only Linux can also have it stop
// when this process is killed.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
