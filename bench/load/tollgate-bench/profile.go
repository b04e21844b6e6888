package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"tollgate/bench/load"
)

// profileCommand says where the processor time of the rows over HTTP goes.
type profileCommand struct {
	Scenario []load.Scenario `arg:"" optional:"" help:"check and ingest (on the leader), ingest-batch; these three when none is given."`
	Tollgate string          `default:"bin/tollgate" help:"The program of the cluster."`
	Floor    bool            `help:"Also of floor: the least that three nodes must do."`
	PGO      string          `name:"pgo" type:"path" placeholder:"FILE" help:"Also write the nodes' profiles, merged, for go build -pgo."`
	loadFlags
}

// Run measures each scenario on a cluster of its own.
func (c *profileCommand) Run(ctx context.Context) error {
	if len(c.Scenario) == 0 {
		c.Scenario = []load.Scenario{load.ScenarioIngest, load.ScenarioBatch, load.ScenarioCheck}
	}
	var reports []load.ProfileReport
	for _, scenario := range c.Scenario {
		names := []string{"tollgate"}
		if scenario == load.ScenarioCheck || scenario == load.ScenarioIngest {
			names[0] = "tollgate-leader"
		}
		if c.Floor {
			names = append(names, "floor")
		}
		for _, name := range names {
			report, err := c.measure(ctx, name, scenario)
			if err != nil {
				return fmt.Errorf("%s: %s: %w", name, scenario, err)
			}
			reports = append(reports, report)
		}
	}
	if c.PGO != "" {
		if err := c.merge(ctx, reports); err != nil {
			return err
		}
	}
	if c.JSON {
		return load.JSON(reports, os.Stdout)
	}
	return load.PrintParts(reports, os.Stdout)
}

func (c *profileCommand) measure(ctx context.Context, name string, scenario load.Scenario,
) (report load.ProfileReport, err error) {
	system, err := systemNamed(name, c.Tollgate)
	if err != nil {
		return report, err
	}
	config := c.config(scenario)
	if config.Target, err = system.Start(ctx, load.DefaultAnswers()); err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, system.Stop()) }()
	run, err := load.New(config)
	if err != nil {
		return report, err
	}
	return run.Profile(ctx)
}

// merge writes the profiles of the reports but for those of floor, which is another program.
func (c *profileCommand) merge(ctx context.Context, reports []load.ProfileReport) error {
	var profiles [][]byte
	for _, report := range reports {
		if report.System != "floor" {
			profiles = append(profiles, report.Profiles...)
		}
	}
	merged, err := load.MergeProfiles(ctx, profiles)
	if err != nil {
		return err
	}
	return os.WriteFile(c.PGO, merged, 0o644)
}
