package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"tollgate/bench/load"
)

// regressionsCommand fails where benchmarks got worse.
type regressionsCommand struct {
	Table     string  `arg:"" type:"existingfile" help:"What benchstat -format csv printed."`
	Threshold float64 `default:"0.03" help:"By how much a benchmark may get worse: 0.03 is 3 %; its bytes by 10 % in any case."`
}

// Run reads the table.
func (c *regressionsCommand) Run() (err error) {
	file, err := os.Open(c.Table)
	if err != nil {
		return fmt.Errorf("regressions: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	worse, err := load.Regressions(file, c.Threshold)
	if err == nil && len(worse) > 0 {
		err = fmt.Errorf("worse by more than %.3g %%:\n%s", 100*c.Threshold, strings.Join(worse, "\n"))
	}
	return err
}
