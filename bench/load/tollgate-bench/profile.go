package main

import (
	"context"
	"fmt"
	"os"

	"tollgate/bench/load"
)

// profileCommand says where the processor time of the rows over HTTP goes.
type profileCommand struct {
	Scenario []load.Scenario `arg:"" optional:"" help:"check (on the leader), ingest, ingest-batch; these three when none is given."`
	Tollgate string          `default:"bin/tollgate" help:"The program of the cluster."`
	loadFlags
}

// Run measures each scenario on a cluster of its own.
func (c *profileCommand) Run(ctx context.Context) error {
	if len(c.Scenario) == 0 {
		c.Scenario = []load.Scenario{load.ScenarioIngest, load.ScenarioBatch, load.ScenarioCheck}
	}
	reports := make([]load.ProfileReport, len(c.Scenario))
	for i, scenario := range c.Scenario {
		var err error
		if reports[i], err = c.measure(ctx, scenario); err != nil {
			return fmt.Errorf("%s: %w", scenario, err)
		}
	}
	if c.JSON {
		return load.JSON(reports, os.Stdout)
	}
	return load.PrintParts(reports, os.Stdout)
}

func (c *profileCommand) measure(ctx context.Context, scenario load.Scenario,
) (report load.ProfileReport, err error) {
	name := "tollgate"
	if scenario == load.ScenarioCheck {
		name = "tollgate-leader"
	}
	cluster, err := tollgateNamed(name, c.Tollgate)
	if err != nil {
		return report, err
	}
	err = cluster.during(ctx, func(target load.Target) error {
		config := c.config(scenario)
		config.Target = target
		run, err := load.New(config)
		if err == nil {
			report, err = run.Profile(ctx)
		}
		return err
	})
	return report, err
}
