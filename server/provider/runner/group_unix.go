//go:build unix

package runner

import (
	"os/exec"
	"syscall"
)

// killGroup kills the command and all that it has started. One that has ended already is not an
// error.
func killGroup(cmd *exec.Cmd) {
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil {
		return
	}
}
