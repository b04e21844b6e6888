package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"tollgate/cluster"
)

type clusterCommand struct {
	Status   clusterStatusCommand   `cmd:"" help:"Say who leads, who can be reached, and how far each has come."`
	Join     clusterJoinCommand     `cmd:"" help:"Make a node that was started with join a member without a vote, or change a member's addresses."`
	Promote  clusterPromoteCommand  `cmd:"" help:"Give a member that has caught up its vote."`
	Remove   clusterRemoveCommand   `cmd:"" help:"Take a member out, alive or not. One that leads hands over first."`
	Transfer clusterTransferCommand `cmd:"" help:"Let a voter lead both groups."`
}

type clusterStatusCommand struct {
	adminFlags `embed:""`
	JSON       bool `name:"json" help:"Print what the node answered."`
}

// Run prints what one node knows of the cluster.
func (c *clusterStatusCommand) Run(ctx context.Context, out io.Writer) error {
	admin, err := c.client()
	if err != nil {
		return err
	}
	defer admin.Close()
	var status cluster.Status
	answer, err := admin.Call(ctx, "GET", clusterPath, nil, &status)
	if err != nil {
		return err
	}
	if c.JSON {
		if _, err = out.Write(append(answer.Body, '\n')); err != nil {
			return fmt.Errorf("print: %w", err)
		}
		return nil
	}
	return printStatus(out, status)
}

// knownVersion is the newest cluster version that a member knows, "?" when it has not said.
func knownVersion(version int64) string {
	if version < 0 {
		return "?"
	}
	return strconv.FormatInt(version, 10)
}

func printStatus(out io.Writer, s cluster.Status) error {
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	var failed error
	line := func(format string, args ...any) {
		if _, err := fmt.Fprintf(table, format+"\n", args...); err != nil {
			failed = err
		}
	}
	ready := "ready"
	if !s.Ready {
		ready = "NOT READY"
	}
	line("As %s sees it: %s, %d MiB of disk free, clock %+d ms.",
		s.NodeID, ready, s.DiskFreeBytes>>20, s.ClockAheadMS)
	for _, reason := range s.Reasons {
		line("  %s (%s)", reason, reason.Cause)
	}
	line("\nMEMBER\tROLE\tREACHABLE\tAPI\tOPERATIONS\tRAFT\tROUND TRIP\tCLOCK\tVERSION\tFOLDER")
	for _, m := range s.Members {
		line("%s\t%s\t%t\t%s\t%s\t%s\t%d µs\t%+d ms\t%s\t%s", m.ID, roleOf(m, s.Groups), m.Reachable,
			m.HTTP, m.Ops, m.Raft, m.RoundTripUS, m.ClockAheadMS, knownVersion(m.Version), m.Disk)
	}
	for _, m := range s.Members {
		if m.Problem != "" {
			line("  %s: %s", m.ID, m.Problem)
		}
	}
	line("\nGROUP\tLEADER\tTERM\tROLE HERE\tLEASE\tCOMMITTED\tAPPLIED\tSNAPSHOT\tSTALE\tLOG" +
		"\tFSYNCS\tVERSION")
	for _, g := range s.Groups {
		stale := fmt.Sprintf("%d ms", g.StalenessMS)
		if g.Stamp == 0 && g.StalenessMS > 0 {
			stale = "empty"
		}
		line("%s\t%s\t%d\t%s\t%t\t%d\t%d\t%d\t%s\t%d KiB\t%d\t%d",
			g.Name, g.Leader, g.Term, g.Role, g.Lease, g.CommitIndex, g.AppliedIndex,
			g.SnapshotIndex, stale, g.LogBytes>>10, g.Syncs, g.Version)
	}
	if err := table.Flush(); err != nil {
		failed = err
	}
	if failed != nil {
		return fmt.Errorf("print: %w", failed)
	}
	return nil
}

// roleOf says which groups a member leads, as the node that was asked knows it.
func roleOf(m cluster.MemberStatus, groups []cluster.GroupStatus) string {
	var leads []string
	for _, g := range groups {
		if g.Leader == m.ID {
			leads = append(leads, g.Name)
		}
	}
	switch {
	case len(leads) > 1 && len(leads) == len(groups):
		return "leads both"
	case len(leads) > 0:
		return "leads " + strings.Join(leads, ", ")
	case m.Voter:
		return "follower"
	}
	return "no vote"
}
