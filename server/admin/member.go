package admin

import (
	"context"
	"errors"
	"strings"
	"time"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/wire"
	"tollgate/server"
)

const (
	maxMember = 32 // characters of a member's name
	// memberPatience bounds a change of the members: a hand-over and a few entries in each group.
	memberPatience = 20 * time.Second
	memberPath     = Prefix + "/cluster/members"
)

// memberRoutes are the rows about the nodes of the cluster.
func (n *nodeTools) memberRoutes() []server.Route {
	change := func(method, tail, operation, summary, action string) server.Route {
		return row(method, memberPath+"/{member}"+tail, operation, summary,
			func(x *server.Exchange) *server.Fault {
				return n.changeMembers(x, MemberChange{Action: action, ID: string(x.Param(0))})
			}, nothing("Done, in both groups"))
	}
	return []server.Route{
		row("POST", memberPath, "joinMember",
			"Add a node that waits for it as a member without a vote, or move a member", n.joinMember,
			server.Takes(server.DocumentSchema[MemberChange]()), nothing("Joined, in both groups")),
		change("POST", "/promote", "promoteMember",
			"Give a member that has caught up its vote", "promote"),
		change("POST", "/lead", "transferLeadership", "Let a voter lead both groups", "transfer"),
		change("DELETE", "", "removeMember",
			"Take a member out, alive or not; one that leads hands over first", "remove"),
	}
}

func (n *nodeTools) joinMember(x *server.Exchange) *server.Fault {
	c := MemberChange{Action: "join"}
	var w walk
	if fault := tagged(x, &w, &c, nil); fault != nil {
		return fault
	}
	return n.changeMembers(x, c)
}

// memberActions are how changes of the members are recorded.
var memberActions = map[string]string{
	"join": "member.joined", "promote": "member.promoted", "remove": "member.removed",
	"transfer": "leadership.transferred",
}

// ErrWasMember means that who is to be removed is no longer a member.
var ErrWasMember = errors.New("it was removed before")

// recentChanges bounds how far back a removal is looked for in the record of changes.
const recentChanges = 1000

// removalRecorded reports whether the newest row about a node's membership is its removal. Where
// the record cannot be read, or has recentChanges newer rows, it is taken to be: a second row would
// be worse than none.
func (n *nodeTools) removalRecorded(node string) bool {
	if n.events == nil {
		return true
	}
	changes, more, err := n.machine.Changes(n.events, billing.ChangeQuery{
		Limit: 1, Scan: recentChanges, Like: func(c *billing.ChangeView) bool {
			return c.Subject == node && strings.HasPrefix(c.Action, "member.")
		},
	})
	if err != nil {
		return true
	}
	if len(changes) > 0 {
		return changes[0].Action == memberActions["remove"]
	}
	return more != 0
}

var faultMembers = server.NewFault(409, "members_unchanged", "The members were not changed")

// changeMembers makes a change, and records it.
func (n *nodeTools) changeMembers(x *server.Exchange, c MemberChange) *server.Fault {
	ctx, cancel := context.WithTimeout(context.Background(), memberPatience)
	defer cancel()
	err := n.state.Change(ctx, c)
	if errors.Is(err, ErrWasMember) && !n.removalRecorded(c.ID) {
		err = nil // it is done, and is recorded below
	}
	if err != nil {
		return faultMembers.With(err.Error())
	}
	note := billing.NoteMembership{
		Actor: x.By(), Action: memberActions[c.Action], Node: c.ID,
		Raft: c.Raft, HTTP: c.HTTP, Ops: c.Ops,
	}
	result := n.propose(x, billing.KindNoteMembership, wire.Encode(nil, &note))
	if result.Outcome != engine.OutcomeDone {
		n.log.Error("a change of the members is not in the record of changes",
			"action", note.Action, "member", c.ID, "outcome", result.Outcome)
	}
	return x.Succeed(200)
}
