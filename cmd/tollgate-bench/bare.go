package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"tollgate/bench"
)

// measureBare runs a bare handler in a process of its own, which answers what the cluster answers,
// and puts the same load on it.
func measureBare(ctx context.Context, run *bench.Run) (report bench.Report, err error) {
	answer, err := run.Sample()
	if err != nil {
		return report, err
	}
	text, err := json.Marshal(answer)
	if err != nil {
		return report, fmt.Errorf("bare handler: %w", err)
	}
	program, err := os.Executable()
	if err != nil {
		return report, fmt.Errorf("bare handler: %w", err)
	}
	command := exec.CommandContext(ctx, program, "--serve-bare")
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	if err != nil {
		return report, fmt.Errorf("bare handler: %w", err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return report, fmt.Errorf("bare handler: %w", err)
	}
	if err = command.Start(); err != nil {
		return report, fmt.Errorf("bare handler: %w", err)
	}
	defer func() { err = errors.Join(err, in.Close(), command.Wait()) }()
	if _, err = in.Write(text); err != nil {
		return report, fmt.Errorf("bare handler: %w", err)
	}
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return report, fmt.Errorf("bare handler: %w", err)
	}
	return run.Bare(ctx, strings.TrimSpace(address))
}
