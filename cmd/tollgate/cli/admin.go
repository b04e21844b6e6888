package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"tollgate/cmd/tollgate/devdata"
	api "tollgate/sdk/go"
)

// AdminFlags say which cluster to operate, itself or by a context.
type AdminFlags struct {
	ClusterFlags `embed:""`
	Context      string `names:"context" env:"TOLLGATE_CONTEXT" placeholder:"NAME" help:"Go to the cluster of this context: tollgate context list. Default: the one in use."`
}

// ClusterFlags say which cluster to operate. What is not given comes from dev.json in Data.
type ClusterFlags struct {
	Ops      []string `context:"ops" env:"TOLLGATE_OPS" placeholder:"HOST:PORT" help:"Operations listener of a node, https://HOST:PORT for TLS; repeatable. Default: of the context, or every node in dev.json."`
	AdminKey string   `context:"admin-key" env:"TOLLGATE_ADMIN_KEY" placeholder:"KEY" help:"Admin key. Default: of the context, or of dev.json."`
	CA       string   `context:"ca" name:"ca" env:"TOLLGATE_CA" type:"existingfile" placeholder:"FILE" help:"Authority of the nodes' certificates, PEM. Default: of the context, or the machine's."`
	Data     string   `default:".tollgate" help:"Data folder of tollgate dev, whose dev.json has the defaults."`

	// starting: the node that is asked may have been started just now, and listen in a moment.
	starting bool
}

// Target is which nodes to ask, and with which key.
func (f *ClusterFlags) Target() (ops []string, key string, err error) {
	return fromDev(f.Data, "--ops and --admin-key", f.Ops, f.AdminKey,
		func(n devdata.Node) string { return n.Ops },
		func(r devdata.Running) string { return r.AdminKey })
}

// fromDev adds from dev.json the addresses or the key that is not given. Its key goes to its own
// nodes alone, and a given key goes to its nodes only where they are on this machine: anybody may
// have put the file there.
func fromDev(
	data, flags string, nodes []string, key string, address func(devdata.Node) string,
	keyOf func(devdata.Running) string,
) ([]string, string, error) {
	if len(nodes) > 0 && key != "" {
		return nodes, key, nil
	}
	running, err := devdata.Folder(data).Load()
	if err != nil {
		return nil, "", fmt.Errorf("without %s, or a context: %w", flags, err)
	}
	var own []string
	for _, n := range running.Nodes {
		own = append(own, address(n))
	}
	for _, n := range nodes {
		if !slices.Contains(own, strings.TrimPrefix(n, "http://")) {
			return nil, "", fmt.Errorf("without %s, or a context: %s is not in %s, whose key goes to "+
				"its own nodes only", flags, n, devdata.Folder(data).File())
		}
	}
	if len(nodes) > 0 {
		return nodes, keyOf(running), nil
	}
	for _, n := range own {
		if u := (url.URL{Host: n}); key != "" && !onLoopback(&u) {
			return nil, "", fmt.Errorf("without %s, or a context: %s of %s is not on this machine",
				flags, n, devdata.Folder(data).File())
		}
	}
	return own, cmp.Or(key, keyOf(running)), nil
}

// Client connects to the admin API.
func (f *ClusterFlags) Client() (*api.Client, error) {
	ops, key, err := f.Target()
	if err != nil {
		return nil, err
	}
	client, err := Connect(ops, key, f.CA)
	if err != nil {
		return nil, err
	}
	client.Patience = adminPatience
	if f.starting {
		client.Refused = adminPatience
	}
	return client, nil
}

// Connect makes a client of operations listeners. The file ca holds the authority of those with
// https:// addresses, "" is the machine's.
func Connect(ops []string, key, ca string) (*api.Client, error) {
	client, err := api.New(ops, key, 2)
	return trusting(client, err, ca)
}

// trusting makes a client, where it could be made, trust the authority in a file; "" is none.
func trusting(client *api.Client, err error, ca string) (*api.Client, error) {
	if err != nil || ca == "" {
		return client, err
	}
	text, err := os.ReadFile(ca)
	if err == nil {
		err = client.Trust(text)
	}
	if err != nil {
		return nil, fmt.Errorf("--ca %s: %w", ca, err)
	}
	return client, nil
}

// read asks for the data at a path, decodes it into v, and returns it as it came.
func (f *AdminFlags) read(ctx context.Context, path string, v any) (json.RawMessage, error) {
	return f.send(ctx, "GET", path, nil, v)
}

func (f *AdminFlags) root() string { return "/api/v1/admin" }

func (f *AdminFlags) send(
	ctx context.Context, method, path string, body, v any,
) (json.RawMessage, error) {
	admin, err := f.Client()
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	return send(ctx, admin, method, path, body, v)
}

// send sends a body as JSON (nil: none), decodes the answer's data into v (nil: there is none to
// decode), and returns the data as it came.
func send(
	ctx context.Context, client *api.Client, method, path string, body, v any,
) (data json.RawMessage, err error) {
	r := api.Request{Method: method, Path: path}
	if body != nil {
		if r.Body, err = json.Marshal(body); err != nil {
			return nil, fmt.Errorf("request body: %w", err)
		}
	}
	err = write(ctx, client, r, func(answer api.Answer) error {
		data = answer.Payload()
		if v == nil {
			return nil
		}
		return answer.Data(v)
	})
	return data, err
}

// write carries out a request to the admin API; take gets its answer of success.
func (f *AdminFlags) write(
	ctx context.Context, r api.Request, take func(api.Answer) error,
) error {
	admin, err := f.Client()
	if err != nil {
		return err
	}
	defer admin.Close()
	return write(ctx, admin, r, take)
}

// write carries out a request; take gets its answer of success. What may change something carries a
// key by which a repeat counts once.
func write(
	ctx context.Context, client *api.Client, r api.Request, take func(api.Answer) error,
) error {
	if r.Method != "GET" {
		key, _ := ctx.Value(repeatKey{}).(string)
		r.Header = map[string]string{"Idempotency-Key": either(key, rand.Text())}
	}
	seen := r.Method == "DELETE" && strings.Contains(r.Path, "/webhook-endpoints/") &&
		answers(ctx, client, r.Path)
	wait := StartProgress("waiting for the answer", 0)
	answer, err := client.Do(ctx, r)
	wait.End()
	if err == nil {
		err = answer.Err()
	}
	if seen && endpointGone(err) {
		// A try whose answer was lost has removed it. The transport may have sent it again by itself:
		// the client's count of its tries does not say.
		err = nil
	}
	if err == nil && take != nil {
		err = take(answer)
	}
	return err
}

// answers reports whether there is something at a path.
func answers(ctx context.Context, client *api.Client, path string) bool {
	answer, err := client.Do(ctx, api.Request{Method: "GET", Path: path})
	return err == nil && answer.Status == 200
}

func endpointGone(err error) bool {
	var refused *api.Error
	return errors.As(err, &refused) && refused.Code == "webhook_endpoint_not_found"
}

// repeatKey is where a context has the key of a change, by which a repeat counts once.
type repeatKey struct{}

// repeatable says how to repeat a request after an error that does not say whether it was done.
func repeatable(err error, flag, key string) error {
	var refused *api.Error
	if err == nil || errors.As(err, &refused) && refused.Status < 500 {
		return err
	}
	return fmt.Errorf("%w; it may have been done: repeat it with %s %s, which counts once",
		err, flag, key)
}

// adminPatience is how long a command goes on when no node answers: longer than an election takes.
const adminPatience = 15 * time.Second

// AdminPath is where the admin API has accounts.
const AdminPath = "/api/v1/admin/accounts"

// EnvironmentFlags say whose records to operate on.
type EnvironmentFlags struct {
	Account     string `context:"account" default:"demo" help:"The account."`
	Environment string `context:"env" name:"env" default:"sandbox" enum:"sandbox,live" help:"sandbox or live."`
}

func (f *EnvironmentFlags) path() string {
	return AdminPath + "/" + url.PathEscape(f.Account) + "/environments/" + f.Environment
}

// CatalogPath is where the admin API has the catalog of an environment.
func CatalogPath(account, environment string) string {
	f := EnvironmentFlags{account, environment}
	return f.path() + "/catalog"
}

// CreateKey makes an API key; a customer's has the scope of customers.
func CreateKey(
	ctx context.Context, admin *api.Client, f EnvironmentFlags, r api.KeyRequest,
) (api.MadeKey, error) {
	if r.Customer != "" {
		r.Scope = "customer"
	}
	created, err := admin.Operations(f.Account, f.Environment).CreateKey(ctx, r)
	if err == nil && created.Key == "" {
		err = errors.New("the answer holds no key")
	}
	return created, err
}
