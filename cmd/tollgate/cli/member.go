package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"time"

	api "tollgate/sdk/go"
)

const (
	ClusterPath = "/api/v1/admin/cluster"
	membersPath = ClusterPath + "/members"
)

type joinFlags struct {
	AdminFlags  `embed:""`
	OutputFlags `embed:""`
	Node        string `arg:"" json:"id" help:"The node's name."`
	Raft        string `required:"" json:"raft" placeholder:"HOST:PORT" help:"Where the other nodes reach it."`
	MemberHTTP  string `name:"member-http" json:"http" placeholder:"HOST:PORT" help:"Where clients reach its API. Default: what it says of itself, or what the list has."`
	MemberOps   string `name:"member-ops" json:"ops" placeholder:"HOST:PORT" help:"Where commands reach it; doctor asks it there. Default: as for --member-http."`
}

func (f *joinFlags) send(
	ctx context.Context, method, path string, body, v any,
) (json.RawMessage, error) {
	f.starting = true
	return f.AdminFlags.send(ctx, method, path, body, v)
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
	wait := StartProgress("waiting until "+c.Node+" has caught up", 0)
	data, err := c.promote(ctx, end)
	wait.End()
	if err != nil {
		return err
	}
	return c.Print(out, data, func() error {
		return Say(out, "%s votes, in both groups.", c.Node)
	})
}

// promote asks until it is done, or an instant has come.
func (c *clusterPromoteCommand) promote(
	ctx context.Context, end time.Time,
) (data json.RawMessage, err error) {
	for {
		data, err = c.send(ctx, "POST", memberPath(c.Node)+"/promote", nil, nil)
		if err == nil || !time.Now().Add(promoteEvery).Before(end) {
			return data, err
		}
		select {
		case <-ctx.Done():
			return data, err
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
	var status api.ClusterStatus
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
