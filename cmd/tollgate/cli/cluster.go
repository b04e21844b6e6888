package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/term"

	api "tollgate/sdk/go"
)

// ClusterCommand shows a cluster and changes its members.
type ClusterCommand struct {
	Status   clusterStatusCommand      `cmd:"" help:"Show who leads, who can be reached, and how far each has come."`
	Join     call[joinFlags, none]     `cmd:"" call:"POST /cluster/members" says:"{Node} is a member of both groups, at {Raft}. Without a vote it gets one with: tollgate cluster promote {Node}" help:"Add a node that was started with join as a member without a vote, or change a member's addresses."`
	Promote  clusterPromoteCommand     `cmd:"" help:"Give a member that has caught up its vote."`
	Remove   clusterRemoveCommand      `cmd:"" help:"Remove a member, alive or not. One that leads hands over first."`
	Transfer call[transferFlags, none] `cmd:"" call:"POST /cluster/members/{Node}/lead" says:"{Node} leads both groups." help:"Let a voter lead both groups."`
}

type clusterStatusCommand struct {
	AdminFlags `embed:""`
	JSON       bool          `name:"json" help:"Print what the node answered."`
	Watch      bool          `help:"Ask again and again, until it is interrupted."`
	Every      time.Duration `default:"2s" help:"How often, with --watch."`
}

// Help says what the command ends with.
func (c *clusterStatusCommand) Help() string {
	return "Shows what the node that answers knows (choose one with --ops). The exit code is 0 when " +
		"every member answers that node, 6 when one is down, and 1 when no node can be asked."
}

// ErrDown ends cluster status where a member does not answer.
var ErrDown = errors.New("a member is down")

// Run prints what one node knows of the cluster, with --watch until ctx ends.
func (c *clusterStatusCommand) Run(ctx context.Context, out io.Writer) error {
	if !c.Watch {
		return c.show(ctx, out)
	}
	if c.Every < minWatch {
		return fmt.Errorf("--every must be at least %s", minWatch)
	}
	for {
		page := &page{on: out}
		err := c.show(ctx, page)
		if ctx.Err() != nil {
			return nil
		}
		if api.IsStatus(err, 401) || api.IsStatus(err, 403) {
			return err // another try changes nothing
		}
		if file, is := out.(*os.File); is && term.IsTerminal(int(file.Fd())) {
			if _, err := io.WriteString(out, "\x1b[H\x1b[2J"); err != nil {
				return fmt.Errorf("print: %w", err)
			}
		}
		if err != nil {
			fmt.Fprintln(page, err)
		}
		if _, err = page.WriteTo(out); err != nil {
			return fmt.Errorf("print: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(c.Every):
		}
	}
}

// minWatch is how often a cluster may be asked.
const minWatch = 100 * time.Millisecond

// show prints it once.
func (c *clusterStatusCommand) show(ctx context.Context, out io.Writer) error {
	admin, err := c.Client()
	if err != nil {
		return err
	}
	defer admin.Close()
	var status api.ClusterStatus
	answer, err := admin.Call(ctx, "GET", ClusterPath, nil, &status)
	if err != nil {
		return err
	}
	if c.JSON {
		err = Say(out, "%s", answer.Body)
	} else {
		err = printStatus(out, status, time.Now())
	}
	if down := status.Down(); err == nil && len(down) > 0 {
		return fmt.Errorf("%w: %s", ErrDown, names(down))
	}
	return err
}

// names are the members' names in one line.
func names(members []api.ClusterMember) string {
	var ids []string
	for _, m := range members {
		ids = append(ids, m.ID)
	}
	return strings.Join(ids, ", ")
}

// banner says what is wrong in a few lines, before the tables; "" where nothing is.
func banner(s *api.ClusterStatus, now time.Time) string {
	var b strings.Builder
	for _, m := range s.Down() {
		fmt.Fprintf(&b, "%s is down: %s.\n", m.ID, lastSeen(m, now))
	}
	if b.Len() == 0 {
		return ""
	}
	all, answer := s.Voters()
	switch need := all/2 + 1; {
	case answer < need:
		fmt.Fprintf(&b, "%d of %d voters answer, and writes need %d: bring one back.", answer, all, need)
	case answer == need:
		fmt.Fprintf(&b, "%d of %d voters answer: one more loss stops writes.", answer, all)
	default:
		fmt.Fprintf(&b, "%d of %d voters answer.", answer, all)
	}
	b.WriteString(" Start it again, or see \"Replace a node\" in cluster/OPERATIONS.md.\n\n")
	return b.String()
}

// lastSeen says when a member last answered.
func lastSeen(m api.ClusterMember, now time.Time) string {
	if m.LastSeenAt == nil {
		return "it has not answered since this node began"
	}
	ago := max(0, now.Sub(*m.LastSeenAt)).Round(time.Second)
	return fmt.Sprintf("last seen %s, %s ago", m.LastSeenAt.UTC().Format(time.RFC3339), ago)
}

// knownVersion is the newest cluster version that a member knows, "?" when it has not said.
func knownVersion(version int64) string {
	if version < 0 {
		return "?"
	}
	return strconv.FormatInt(version, 10)
}

func printStatus(out io.Writer, s api.ClusterStatus, now time.Time) error {
	table := NewTable(out)
	line := func(format string, args ...any) {
		table.Row(strings.Split(fmt.Sprintf(format, args...), "\t")...)
	}
	if _, err := io.WriteString(out, banner(&s, now)); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	ready := "ready"
	if !s.Ready {
		ready = "NOT READY"
	}
	line("As %s sees it: %s, %s of disk free, clock %+d ms.",
		s.NodeID, ready, Size(s.DiskFreeBytes), s.ClockAheadMS)
	for _, reason := range s.Reasons {
		line("  %s (%s)", reason, reason.Cause)
	}
	line("")
	line("MEMBER\tROLE\tAPI\tOPERATIONS\tRAFT\tROUND TRIP\tCLOCK\tVERSION\tFOLDER")
	for _, m := range s.Members {
		trip, clock := fmt.Sprintf("%d µs", m.RoundTripUS), fmt.Sprintf("%+d ms", m.ClockAheadMS)
		if m.IsDown() {
			trip, clock = "–", "–"
		}
		line("%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s", m.ID, roleOf(m, s.Groups), m.HTTP, m.Ops, m.Raft, trip,
			clock, knownVersion(m.Version), m.Disk)
	}
	for _, m := range s.Members {
		if m.Problem != "" {
			line("  %s: %s", m.ID, m.Problem)
		}
	}
	line("")
	line("GROUP\tLEADER\tTERM\tROLE HERE\tLEASE\tCOMMITTED\tAPPLIED\tSNAPSHOT\tSTALE\tLOG" +
		"\tFSYNCS\tVERSION")
	for _, g := range s.Groups {
		stale := fmt.Sprintf("%d ms", g.StalenessMS)
		if g.Stamp == 0 && g.StalenessMS > 0 {
			stale = "empty"
		}
		line("%s\t%s\t%d\t%s\t%t\t%d\t%d\t%d\t%s\t%s\t%d\t%d",
			g.Name, g.Leader, g.Term, g.Role, g.Lease, g.CommitIndex, g.AppliedIndex,
			g.SnapshotIndex, stale, Size(g.LogBytes), g.Syncs, g.Version)
	}
	return table.End()
}

// roleOf says which groups a member leads, as the node that was asked knows it.
func roleOf(m api.ClusterMember, groups []api.ClusterGroup) string {
	if m.IsDown() {
		return m.Role
	}
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
