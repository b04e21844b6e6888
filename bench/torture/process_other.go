//go:build !linux

package torture

import "syscall"

// childAttributes put a child into a process group of its own.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
