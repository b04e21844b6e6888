package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// startTimeout bounds how long a new cluster may take to serve, stopTimeout how long it may take to
// stop.
const (
	startTimeout = time.Minute
	stopTimeout  = 30 * time.Second
)

// start runs a cluster in a folder of its own, points the flags at it, and returns what stops it
// and removes the folder.
func (f *flags) start(ctx context.Context) (stop func() error, err error) {
	program, err := filepath.Abs(f.Tollgate)
	if err != nil {
		return nil, fmt.Errorf("--tollgate: %w", err)
	}
	if f.Data, err = os.MkdirTemp("", "tollgate-bench-"); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	var output bytes.Buffer
	command := exec.Command(program, "dev", "--data", f.Data,
		"--http-port", "18080", "--ops-port", "19080", "--raft-port", "17080")
	command.Stdout, command.Stderr = &output, &output
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for us; we stop it then
	if err = command.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start a cluster (make bench builds it): %w", err),
			os.RemoveAll(f.Data))
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	stop = func() error {
		err := command.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(stopTimeout):
			err = errors.Join(err, errors.New("the cluster did not stop"), command.Process.Kill())
		}
		return errors.Join(err, os.RemoveAll(f.Data))
	}
	deadline := time.After(startTimeout)
	for {
		if _, err = os.Stat(filepath.Join(f.Data, "dev.json")); err == nil {
			return stop, nil
		}
		select {
		case <-ended:
			return nil, errors.Join(fmt.Errorf("the cluster did not start:\n%s", &output),
				os.RemoveAll(f.Data))
		case <-deadline:
			return nil, errors.Join(errors.New("the cluster did not start in time"), stop())
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), stop())
		case <-time.After(50 * time.Millisecond):
		}
	}
}
