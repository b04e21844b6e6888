package dev

import (
	"context"
	"errors"
	"io"

	"tollgate/cmd/tollgate/devdata"
	"tollgate/cmd/tollgate/tour"
)

// TourCommand does what a new agent does.
type TourCommand struct {
	Data string `default:".tollgate" help:"Data folder of tollgate dev, which serves the sample product (--sample-product)."`
}

// Run takes the tour of the workspace API.
func (c *TourCommand) Run(ctx context.Context, out io.Writer) error {
	running, err := devdata.Folder(c.Data).Load()
	if err != nil {
		return err
	}
	if running.SampleProduct == "" {
		return errors.New("the cluster serves no sample product: start it with " +
			"tollgate dev --sample-product --agent example=bin/agent (make run does)")
	}
	o := tour.Options{
		Out: out, AdminKey: running.AdminKey, Identity: running.Identity,
		Product: running.SampleProduct + "/good/",
	}
	for _, node := range running.Nodes {
		o.Nodes, o.Ops = append(o.Nodes, node.HTTP), append(o.Ops, node.Ops)
	}
	return tour.Run(ctx, o)
}
