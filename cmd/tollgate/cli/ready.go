package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"tollgate/cmd/tollgate/devdata"
	api "tollgate/sdk/go"
)

// ReadyCommand asks nodes whether they are ready.
type ReadyCommand struct {
	Ops     []string      `context:"ops" env:"TOLLGATE_OPS" placeholder:"HOST:PORT" help:"Operations listener of a node, https://HOST:PORT for TLS; repeatable. Default: of the context, or every node in dev.json, else 127.0.0.1:9080."`
	Context string        `names:"context" env:"TOLLGATE_CONTEXT" placeholder:"NAME" help:"Ask the nodes of this context: tollgate context list. Default: the one in use."`
	Data    string        `default:".tollgate" help:"Data folder of tollgate dev, whose dev.json has the defaults."`
	CA      string        `context:"ca" name:"ca" env:"TOLLGATE_CA" type:"existingfile" placeholder:"FILE" help:"Authority of the node's certificate, PEM. Default: of the context, or the machine's."`
	Wait    time.Duration `default:"0s" help:"Ask until it is ready, this long at most; 0 asks once."`
}

// Times of asking for readiness: askEvery apart, each bounded by askTimeout, so that a health
// check with a bound of its own gets an answer and not a kill.
const (
	AskEvery   = 100 * time.Millisecond
	askTimeout = 2 * time.Second
)

// usualOps is where a node's operations listener is unless its configuration says otherwise.
const usualOps = "127.0.0.1:9080"

// Run asks one node whether it is ready, or all of tollgate dev, and fails with the reasons when
// one is not. It needs no key: health checks of containers run it, and scripts that restart nodes
// one by one.
func (c *ReadyCommand) Run(ctx context.Context, out io.Writer) error {
	nodes, err := c.nodes()
	if err != nil {
		return err
	}
	until := time.Now().Add(c.Wait)
	wait := StartProgress("waiting for "+strings.Join(nodes, ", "), 0)
	for _, node := range nodes {
		if err = c.await(ctx, node, until); err != nil {
			break
		}
	}
	wait.End()
	if err != nil {
		return err
	}
	return Say(out, "ready")
}

// nodes are the operations listeners to ask.
func (c *ReadyCommand) nodes() ([]string, error) {
	if len(c.Ops) > 0 {
		return c.Ops, nil
	}
	data := devdata.Folder(c.Data)
	if _, err := os.Stat(data.File()); err != nil {
		return []string{usualOps}, nil
	}
	running, err := data.Load()
	var ops []string
	for _, node := range running.Nodes {
		ops = append(ops, node.Ops)
	}
	return ops, err
}

// await asks a node until it is ready.
func (c *ReadyCommand) await(ctx context.Context, node string, until time.Time) error {
	client, err := Connect([]string{node}, "", c.CA)
	if err != nil {
		return err
	}
	defer client.Close()
	for {
		if err = AskReady(ctx, client); err == nil {
			return nil
		}
		if time.Now().After(until) {
			return fmt.Errorf("%s is not ready: %w", node, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w", node, err)
		case <-time.After(AskEvery):
		}
	}
}

// AskReady asks a node once whether it is ready. The error says why it is not.
func AskReady(ctx context.Context, node *api.Client) error {
	node.AnswerTimeout = askTimeout
	answer, err := node.Try(ctx, api.Request{Method: "GET", Path: "/readyz"})
	if err != nil || answer.Status == 200 {
		return err
	}
	var said struct {
		Reasons []api.ClusterReason `json:"reasons"`
	}
	if json.Unmarshal(answer.Body, &said) != nil || len(said.Reasons) == 0 {
		return fmt.Errorf("it answers %d", answer.Status)
	}
	var why []string
	for _, reason := range said.Reasons {
		why = append(why, reason.String())
	}
	return fmt.Errorf("%d: %s", answer.Status, strings.Join(why, "; "))
}
