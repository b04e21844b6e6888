package main

import (
	"context"
	"io"
	"net/url"
	"time"
)

const membersPath = "/api/v1/admin/cluster/members"

type clusterJoinCommand struct {
	adminFlags  `embed:""`
	outputFlags `embed:""`
	Node        string `arg:"" help:"The node's name."`
	Raft        string `required:"" placeholder:"HOST:PORT" help:"Where the other nodes reach it."`
	MemberHTTP  string `name:"member-http" placeholder:"HOST:PORT" help:"Its client API, for display."`
	MemberOps   string `name:"member-ops" placeholder:"HOST:PORT" help:"Its operations listener, for display."`
}

// Run joins a node, or moves a member.
func (c *clusterJoinCommand) Run(ctx context.Context, out io.Writer) error {
	data, err := c.send(ctx, "POST", membersPath, map[string]string{
		"id": c.Node, "raft": c.Raft, "http": c.MemberHTTP, "ops": c.MemberOps,
	}, nil)
	if err != nil {
		return err
	}
	return c.print(out, data, func() error {
		return say(out, "%s is a member of both groups, at %s. Without a vote it gets one with: "+
			"tollgate cluster promote %s", c.Node, c.Raft, c.Node)
	})
}

type clusterPromoteCommand struct {
	adminFlags  `embed:""`
	outputFlags `embed:""`
	Node        string        `arg:"" help:"The member's name."`
	Wait        time.Duration `default:"0s" help:"How long to wait until it has caught up."`
}

// promoteEvery is how often a promotion that is waited for is asked for.
const promoteEvery = time.Second

// Run promotes a member.
func (c *clusterPromoteCommand) Run(ctx context.Context, out io.Writer) error {
	end := time.Now().Add(c.Wait)
	for {
		data, err := c.send(ctx, "POST", memberPath(c.Node)+"/promote", nil, nil)
		if err == nil {
			return c.print(out, data, func() error {
				return say(out, "%s votes, in both groups.", c.Node)
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
	adminFlags  `embed:""`
	outputFlags `embed:""`
	Node        string `arg:"" help:"The member's name."`
}

// Run removes a member.
func (c *clusterRemoveCommand) Run(ctx context.Context, out io.Writer) error {
	data, err := c.send(ctx, "DELETE", memberPath(c.Node), nil, nil)
	if err != nil {
		return err
	}
	return c.print(out, data, func() error {
		return say(out, "%s is no member any more. Stop it. To bring it back: empty its folder, "+
			"start it with join, and join it.", c.Node)
	})
}

type clusterTransferCommand struct {
	adminFlags  `embed:""`
	outputFlags `embed:""`
	Node        string `arg:"" help:"The voter that is to lead."`
}

// Run transfers leadership.
func (c *clusterTransferCommand) Run(ctx context.Context, out io.Writer) error {
	data, err := c.send(ctx, "POST", memberPath(c.Node)+"/lead", nil, nil)
	if err != nil {
		return err
	}
	return c.print(out, data, func() error { return say(out, "%s leads both groups.", c.Node) })
}

func memberPath(node string) string { return membersPath + "/" + url.PathEscape(node) }
