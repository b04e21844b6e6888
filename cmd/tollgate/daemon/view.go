package daemon

import (
	"context"
	"fmt"

	"tollgate/cluster"
	"tollgate/server/admin"
)

// clusterView shows the operations listener what the cluster node knows; it is an admin.Cluster.
type clusterView struct{ node *cluster.Node }

// Status describes the node, its groups and the members.
func (v clusterView) Status() any { return v.node.Status() }

// NotReady lists why the node should not be sent requests.
func (v clusterView) NotReady() []admin.Reason {
	var list []admin.Reason
	for _, r := range v.node.NotReady() {
		list = append(list, admin.Reason{Cause: string(r.Cause), Group: r.Group, Text: r.Text})
	}
	return list
}

// Causes are the names that reasons may have.
func (clusterView) Causes() []string {
	var names []string
	for _, cause := range cluster.Causes() {
		names = append(names, string(cause))
	}
	return names
}

// Leads reports whether the node leads the billing group.
func (v clusterView) Leads() bool {
	_, leads := v.node.Billing().Leads()
	return leads
}

// Change changes the members, or says why they were not changed.
func (v clusterView) Change(ctx context.Context, c admin.MemberChange) error {
	err := v.change(ctx, c)
	if c.Action == "remove" && cluster.WasMember(err) {
		return removedBefore{cluster.WhyUnchanged(err)}
	}
	return cluster.WhyUnchanged(err)
}

// removedBefore is the cluster's refusal to remove who was removed already, as an ErrWasMember.
type removedBefore struct{ error }

// Is reports whether it is one.
func (removedBefore) Is(target error) bool { return target == admin.ErrWasMember }

func (v clusterView) change(ctx context.Context, c admin.MemberChange) error {
	switch c.Action {
	case "join":
		return v.node.Join(ctx, cluster.Member{ID: c.ID, Raft: c.Raft, HTTP: c.HTTP, Ops: c.Ops})
	case "promote":
		return v.node.Promote(ctx, c.ID)
	case "remove":
		return v.node.Remove(ctx, c.ID)
	case "transfer":
		return v.node.Transfer(ctx, c.ID)
	}
	return fmt.Errorf("%w: no change is called %q", cluster.ErrMembers, c.Action)
}
