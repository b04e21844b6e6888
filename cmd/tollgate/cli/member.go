package cli

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"time"

	"tollgate/cluster"
)

const (
	ClusterPath = "/api/v1/admin/cluster"
	membersPath = ClusterPath + "/members"
)

type clusterJoinCommand struct {
	AdminFlags  `embed:""`
	OutputFlags `embed:""`
	Node        string `arg:"" help:"The node's name."`
	Raft        string `required:"" placeholder:"HOST:PORT" help:"Where the other nodes reach it."`
	MemberHTTP  string `name:"member-http" placeholder:"HOST:PORT" help:"Where clients reach its API. Default: what it says of itself, or what the list has."`
	MemberOps   string `name:"member-ops" placeholder:"HOST:PORT" help:"Where commands reach it; doctor asks it there. Default: as for --member-http."`
}

// Run joins a node, or moves a member.
func (c *clusterJoinCommand) Run(ctx context.Context, out io.Writer) error {
	c.starting = true
	data, err := c.send(ctx, "POST", membersPath, map[string]string{
		"id": c.Node, "raft": c.Raft, "http": c.MemberHTTP, "ops": c.MemberOps,
	}, nil)
	return c.answer(out, data, err, func() error {
		return Say(out, "%s is a member of both groups, at %s. Without a vote it gets one with: "+
			"tollgate cluster promote %s", c.Node, c.Raft, c.Node)
	})
}

type clusterPromoteCommand struct {
	AdminFlags  `embed:""`
	OutputFlags `embed:""`
	Node        string        `arg:"" help:"The member's name."`
	Wait        time.Duration `default:"0s" help:"How long to wait until it has caught up."`
}

// promoteEvery is how often a promotion that is waited for is asked for.
const promoteEvery = time.Second

// Run promotes a member.
func (c *clusterPromoteCommand) Run(ctx context.Context, out io.Writer) error {
	end := time.Now().Add(c.Wait)
	c.starting = true
	for {
		data, err := c.send(ctx, "POST", memberPath(c.Node)+"/promote", nil, nil)
		if err == nil {
			return c.Print(out, data, func() error {
				return Say(out, "%s votes, in both groups.", c.Node)
			})
		}
		if !time.Now().Add(promoteEvery).Before(end) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(promoteEvery):
		}
	}
}

type clusterRemoveCommand struct {
	AdminFlags  `embed:""`
	OutputFlags `embed:""`
	Node        string `arg:"" help:"The member's name."`
}

// Run removes a member.
func (c *clusterRemoveCommand) Run(ctx context.Context, out io.Writer) error {
	data, err := c.send(ctx, "DELETE", memberPath(c.Node), nil, nil)
	return c.answer(out, data, err, func() error {
		return Say(out, "%s is no longer a member. %sStop it. To bring it back: empty its folder, "+
			"start it with join, and join it.", c.Node, c.rest(ctx))
	})
}

// rest says what is left; nothing when the node that was asked does not say.
func (c *clusterRemoveCommand) rest(ctx context.Context) string {
	var status cluster.Status
	if _, err := c.read(ctx, ClusterPath, &status); err != nil || len(status.Members) == 0 {
		return ""
	}
	voters := 0
	for _, m := range status.Members {
		if m.Voter && m.ID != c.Node { // the node that was asked may not have heard of it yet
			voters++
		}
	}
	return fmt.Sprintf("Voters that are left: %d; losses that they stand: %d. ", voters,
		max(0, voters-1)/2)
}

type transferFlags struct {
	AdminFlags  `embed:""`
	OutputFlags `embed:""`
	Node        string `arg:"" help:"The voter that is to lead."`
}

func memberPath(node string) string { return membersPath + "/" + url.PathEscape(node) }
