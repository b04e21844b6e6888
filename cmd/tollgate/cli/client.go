package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os/user"
	"regexp"
	"strconv"
	"strings"

	"tollgate/cmd/tollgate/devdata"
	api "tollgate/sdk/go"
)

// ClientFlags say where the client API is, and with which key to call it.
type ClientFlags struct {
	URL []string `context:"url" name:"url" env:"TOLLGATE_URL" placeholder:"URL" help:"Client API of a node; repeatable. Default: of the context, or every node in dev.json."`
	Key string   `context:"key" env:"TOLLGATE_KEY" placeholder:"KEY" help:"API key. Default: of the context, or the sandbox key, with --env=live the live key, of dev.json."`
}

// Connect returns a client of the client API; what the flags leave out is in the dev.json of data.
// The file ca holds the authority of nodes with https:// addresses, "" is the machine's.
func (f *ClientFlags) Connect(
	data, environment, ca string, connections int,
) (*api.Client, error) {
	nodes, key, err := fromDev(data, "--url and --key", f.URL, f.Key,
		func(n devdata.Node) string { return n.HTTP },
		func(r devdata.Running) string {
			if environment == "live" {
				return r.LiveKey
			}
			return r.SandboxKey
		})
	if err != nil {
		return nil, err
	}
	other := map[string]string{"sandbox": "k_live_", "live": "k_test_"}[environment]
	if other != "" && len(key) > len(other) && strings.HasPrefix(key[1:], other) {
		return nil, fmt.Errorf("--env %s, but %s… is a key of the other environment; nothing was sent",
			environment, key[:len("sk_live_")])
	}
	client, err := api.New(nodes, key, connections)
	return trusting(client, err, ca)
}

// inClient are the flags of a command that goes through the client API.
type inClient struct {
	ClientFlags `embed:""`
	OutputFlags `embed:""`
	Environment string `context:"env" name:"env" default:"" enum:",sandbox,live" help:"sandbox or live: which key of dev.json to use; any other key must belong to it."`
	CA          string `context:"ca" name:"ca" env:"TOLLGATE_CA" type:"existingfile" placeholder:"FILE" help:"Authority of the nodes' certificates, PEM. Default: of the context, or the machine's."`
	Context     string `names:"context" env:"TOLLGATE_CONTEXT" placeholder:"NAME" help:"Go to the cluster of this context: tollgate context list. Default: the one in use."`
	Data        string `default:".tollgate" help:"Data folder of tollgate dev, whose dev.json has the defaults."`
}

func (f *inClient) root() string { return "/api/v1/client" }

func (f *inClient) client() (*api.Client, error) {
	client, err := f.Connect(f.Data, f.Environment, f.CA, 1)
	if err != nil {
		return nil, err
	}
	client.Patience, client.Actor = adminPatience, actor()
	return client, nil
}

// actor is who is recorded for what a command changes: the user of this machine.
func actor() string {
	name := "someone"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if !ascii.MatchString(name) {
		name = strconv.QuoteToASCII(name)
	}
	return "tollgate, " + name[:min(len(name), 64)]
}

var ascii = regexp.MustCompile(`^[!-~]+$`)

func (f *inClient) send(
	ctx context.Context, method, path string, body, v any,
) (json.RawMessage, error) {
	client, err := f.client()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	return send(ctx, client, method, path, body, v)
}

// ofCustomer names a customer to the client API.
type ofCustomer struct {
	inClient `embed:""`
	Customer string `arg:"" help:"The customer's externalClientCustomerId."`
}
