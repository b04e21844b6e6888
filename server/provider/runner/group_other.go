//go:build unix && !linux

package runner

import (
	"os/exec"
	"syscall"
)

// ownGroup makes the command the head of a process group of its own.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
