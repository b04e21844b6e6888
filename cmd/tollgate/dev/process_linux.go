package dev

import "syscall"

// childAttributes put a child into a process group of its own and have it stop when this process
// dies, however it dies.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
