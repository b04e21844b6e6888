package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"tollgate/cluster"
	"tollgate/cmd/tollgate/api"
)

type readyCommand struct {
	Ops  string        `default:"127.0.0.1:9080" placeholder:"HOST:PORT" help:"Operations listener of the node, https://HOST:PORT for TLS (${default})."`
	CA   string        `name:"ca" env:"TOLLGATE_CA" type:"existingfile" placeholder:"FILE" help:"Authority of the node's certificate, PEM. Default: the machine's."`
	Wait time.Duration `default:"0s" help:"Ask until it is ready, this long at the most; 0 asks once."`
}

// Times of asking for readiness: askEvery apart, each bounded by askTimeout, so that a health
// check with a bound of its own gets an answer and not a kill.
const (
	askEvery   = 100 * time.Millisecond
	askTimeout = 2 * time.Second
)

// Run asks one node whether it is ready, and fails with its reasons when it is not. It needs no
// key: health checks of containers and scripts that restart nodes one by one run it.
func (c *readyCommand) Run(ctx context.Context, out io.Writer) error {
	client, err := connect([]string{c.Ops}, "", c.CA)
	if err != nil {
		return err
	}
	defer client.Close()
	until := time.Now().Add(c.Wait)
	for {
		if err = askReady(ctx, client); err == nil {
			_, err = fmt.Fprintln(out, "ready")
			return err
		}
		if time.Now().After(until) {
			return fmt.Errorf("%s is not ready: %w", c.Ops, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w", c.Ops, err)
		case <-time.After(askEvery):
		}
	}
}

// askReady asks a node once whether it is ready. The error says why it is not.
func askReady(ctx context.Context, node *api.Client) error {
	node.AnswerTimeout = askTimeout
	answer, err := node.Try(ctx, api.Request{Method: "GET", Path: "/readyz"})
	if err != nil || answer.Status == 200 {
		return err
	}
	var said struct {
		Reasons []cluster.Reason `json:"reasons"`
	}
	if json.Unmarshal(answer.Body, &said) != nil || len(said.Reasons) == 0 {
		return fmt.Errorf("it answers %d", answer.Status)
	}
	return fmt.Errorf("%d: %s", answer.Status, cluster.Words(said.Reasons))
}
