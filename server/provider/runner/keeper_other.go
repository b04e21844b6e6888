//go:build !linux

package runner

import (
	"io"
	"os/exec"
)

// Called does nothing here: there are no keepers.
func Called([]string) (code int, called bool) { return 0, false }

// kept is the command itself, at the head of a process group of its own.
func kept(e *Exec, folder string) (cmd *exec.Cmd, lifeline io.Closer, err error) {
	cmd = exec.Command(e.Command[0], e.Command[1:]...)
	cmd.Dir = folder
	ownGroup(cmd)
	return cmd, io.NopCloser(nil), nil
}

// abandon kills the agent and its process group; what has left the group stays.
func (p *process) abandon() { killGroup(p.cmd) }

// unkept says nothing: the agent was killed, and there is no keeper.
func unkept(error) error { return nil }
