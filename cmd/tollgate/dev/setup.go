package dev

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"tollgate/cmd/tollgate/certs"
	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/config"
	"tollgate/cmd/tollgate/demo"
	"tollgate/cmd/tollgate/devdata"
	api "tollgate/sdk/go"
	"tollgate/server"
)

const (
	demoAccount  = "demo"
	demoCustomer = "acme"
	// mailboxKeyPrefix is that of the key of all mailboxes at the local identity provider.
	mailboxKeyPrefix = "dev_mailbox_"
)

// Prepare makes the folder of a new cluster, or loads that of an old one.
func (c *Command) Prepare(data devdata.Folder, wanted []config.Config,
) (devdata.Keys, []config.Config, error) {
	keys, err := data.LoadKeys()
	if err != nil {
		return devdata.Keys{}, nil, err
	}
	for key, prefix := range map[*string]string{
		&keys.AdminKey: server.KeyPrefixAdmin, &keys.MailboxKey: mailboxKeyPrefix,
	} {
		if *key != "" {
			continue
		}
		*key = server.MintKey(prefix)
		if err = data.SaveKeys(keys); err != nil {
			return devdata.Keys{}, nil, err
		}
	}
	hash := sha256.Sum256([]byte(keys.AdminKey))
	authority, err := certs.OpenAuthority(data.Certificates())
	if err != nil {
		return devdata.Keys{}, nil, err
	}
	for i := range wanted {
		node := &wanted[i]
		node.AdminKeyHash = hex.EncodeToString(hash[:])
		if err = c.prepareNode(data, authority, node); err != nil {
			return devdata.Keys{}, nil, err
		}
	}
	return keys, wanted, nil
}

// checkSame reports whether a folder of an earlier start was made for other addresses.
func (c *Command) checkSame(data devdata.Folder, wanted []config.Config) error {
	for _, node := range wanted {
		old, err := config.Load(data.NodeConfig(node.Node))
		switch {
		case errors.Is(err, os.ErrNotExist):
		case err != nil:
			return err
		case old.HTTP != node.HTTP || old.Ops != node.Ops || old.Raft != node.Raft ||
			len(old.Members) != len(node.Members):
			return fmt.Errorf("%s was made with other ports or another number of nodes (%s has %s, %s, "+
				"%s and %d nodes): use those, or another --data",
				c.Data, node.Node, old.HTTP, old.Ops, old.Raft, len(old.Members))
		}
	}
	return nil
}

// prepareNode writes a node's certificate and configuration, once. What the file says later on is
// up to its owner, the addresses excepted: the cluster knows its nodes by them.
func (c *Command) prepareNode(data devdata.Folder, authority *certs.Authority,
	node *config.Config,
) error {
	file := data.NodeConfig(node.Node)
	old, err := config.Load(file)
	if err == nil {
		*node = old
		return nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err = os.MkdirAll(data.NodeFolder(node.Node), 0o700); err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	if err = authority.Issue(data.Certificates(), node.Node, []string{"127.0.0.1"}); err != nil {
		return err
	}
	if err = node.Validate(); err != nil {
		return err
	}
	text, err := node.YAML()
	if err != nil {
		return err
	}
	return devdata.WriteFile(file, text)
}

// Configs are the settings of a new cluster's nodes.
func (c *Command) Configs(data devdata.Folder) ([]config.Config, error) {
	if c.Nodes < 1 || c.Nodes > 9 || c.Nodes%2 == 0 {
		return nil, fmt.Errorf("--nodes %d: want 1, 3, 5, 7 or 9", c.Nodes)
	}
	for flag, port := range map[string]int{
		"--http-port": c.HTTPPort, "--ops-port": c.OpsPort, "--raft-port": c.RaftPort,
	} {
		if port < 1 || port+c.Nodes-1 > 65535 {
			return nil, fmt.Errorf("%s %d: want %d ports in a row from 1 to 65535", flag, port, c.Nodes)
		}
	}
	nodes := make([]config.Config, c.Nodes)
	members := make([]config.Member, c.Nodes)
	for i := range nodes {
		node := config.Default()
		node.Node = "node" + strconv.Itoa(i+1)
		node.Data = data.NodeFolder(node.Node)
		node.HTTP, node.Ops, node.Raft = local(c.HTTPPort+i), local(c.OpsPort+i), local(c.RaftPort+i)
		folder := data.Certificates() + string(os.PathSeparator)
		node.TLS = config.TLS{
			Authority:   folder + certs.AuthorityFile,
			Certificate: folder + certs.CertificateFile(node.Node),
			Key:         folder + certs.KeyFile(node.Node),
		}
		// Webhooks and the like may be tried out on this machine.
		node.Outbound = config.Outbound{
			AllowNetworks: []string{"127.0.0.0/8", "::1/128"},
			AllowHosts:    []string{"127.0.0.1:*", "localhost:*"},
		}
		// Runs can be bought and tried out, without money and without an agent of one's own.
		node.Workspaces.Payments = config.PaymentsSandbox
		node.Workspaces.Agents = []string{config.AgentHTTP, config.AgentNop}
		// Mails are looked at, not sent; all nodes show the same.
		node.Mail.Folder = data.Mails()
		if err := c.engage(&node.Workspaces); err != nil {
			return nil, err
		}
		c.believe(&node)
		if c.Limits != "production" {
			node.Workspaces.SignupsPerHour, node.Workspaces.RunsPerDay = 1000, 1000
			node.Workspaces.FreeRunsPerDay = 10_000
		}
		// The nodes share this machine's memory.
		node.Memory = max(256, int(node.MemoryBytes()>>20)/c.Nodes)
		members[i] = config.Member{ID: node.Node, Raft: node.Raft, HTTP: node.HTTP, Ops: node.Ops}
		node.Members = members
		nodes[i] = node
	}
	return nodes, nil
}

func local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// provision makes the demo account with its catalog, its keys and a first customer, as far as they
// are absent.
func provision(ctx context.Context, data devdata.Folder, running *devdata.Running) error {
	var ops, nodes []string
	for _, node := range running.Nodes {
		ops, nodes = append(ops, node.Ops), append(nodes, node.HTTP)
	}
	admin, err := api.New(ops, running.AdminKey, 2)
	if err != nil {
		return err
	}
	defer admin.Close()
	_, err = admin.Call(ctx, "POST", cli.AdminPath, map[string]string{"name": demoAccount}, nil)
	if err != nil && !api.IsStatus(err, 409) {
		return fmt.Errorf("demo account: %w", err)
	}
	for _, environment := range []string{"sandbox", "live"} {
		if err = applyDemoCatalog(ctx, admin, environment); err != nil {
			return err
		}
	}
	if err = enableSandboxPayments(ctx, admin); err != nil {
		return err
	}
	for _, key := range []struct {
		text               *string
		environment, scope string
	}{
		{&running.SandboxKey, "sandbox", "full"},
		{&running.LiveKey, "live", "full"},
		{&running.ReadKey, "sandbox", "read"},
	} {
		works, err := keyWorks(ctx, nodes, *key.text)
		if err != nil {
			return fmt.Errorf("demo keys: %w", err)
		}
		if works {
			continue
		}
		created, err := cli.CreateKey(ctx, admin,
			cli.EnvironmentFlags{Account: demoAccount, Environment: key.environment},
			api.KeyRequest{Scope: key.scope, Label: "tollgate dev"})
		if err != nil {
			return fmt.Errorf("demo keys: %w", err)
		}
		*key.text = created.Key
		if err = data.SaveKeys(running.Keys); err != nil {
			return err
		}
	}
	client, err := api.New(nodes, running.SandboxKey, 2)
	if err != nil {
		return err
	}
	defer client.Close()
	return createDemoCustomer(ctx, client)
}

// keyWorks reports whether a key is still good: one of an earlier start may have been revoked.
func keyWorks(ctx context.Context, nodes []string, key string) (bool, error) {
	if key == "" {
		return false, nil
	}
	client, err := api.New(nodes, key, 1)
	if err != nil {
		return false, err
	}
	defer client.Close()
	_, err = client.Call(ctx, "GET", "/api/v1/client/plans", nil, nil)
	if api.IsStatus(err, 401) {
		return false, nil
	}
	return err == nil, err
}

// enableSandboxPayments lets the demo's sandbox collect through the built-in provider, unless its
// owner has set another.
func enableSandboxPayments(ctx context.Context, admin *api.Client) error {
	const path = cli.AdminPath + "/" + demoAccount + "/environments/sandbox/payment-provider"
	var settings struct {
		Provider string `json:"provider"`
	}
	if _, err := admin.Call(ctx, "GET", path, nil, &settings); err != nil {
		return fmt.Errorf("demo payments: %w", err)
	}
	if settings.Provider != "none" {
		return nil
	}
	_, err := admin.Call(ctx, "PUT", path, map[string]string{"provider": "sandbox"}, nil)
	if err != nil {
		return fmt.Errorf("demo payments: %w", err)
	}
	return nil
}

func applyDemoCatalog(ctx context.Context, admin *api.Client, environment string) error {
	answer, err := admin.Do(ctx, api.Request{
		Method: "PUT", Path: cli.CatalogPath(demoAccount, environment),
		Body: demo.Catalog, ContentType: "application/yaml",
	})
	if err == nil {
		err = answer.Err()
	}
	if err != nil {
		return fmt.Errorf("demo catalog: %w", err)
	}
	return nil
}

// createDemoCustomer makes the customer of the printed curl lines, with a subscription.
func createDemoCustomer(ctx context.Context, client *api.Client) error {
	var subscriptions []struct{} // suspended ones too: the demo's invoices are not paid
	const path = "/api/v1/client/customers"
	_, err := client.Call(ctx, "GET", path+"/"+demoCustomer+"/subscriptions?status=all", nil,
		&subscriptions)
	if api.IsStatus(err, 404) {
		_, err = client.Call(ctx, "POST", path, map[string]string{
			"externalClientCustomerId": demoCustomer,
			"firstName":                "Ada",
			"lastName":                 "Acme",
			"email":                    "ada@acme.example",
		}, nil)
		if api.IsStatus(err, 409) {
			err = nil
		}
	}
	if err == nil && len(subscriptions) == 0 {
		_, err = client.Call(ctx, "POST", "/api/v1/client/subscriptions", map[string]string{
			"planId": demo.ReplayPlan, "customerReferenceId": demoCustomer,
		}, nil)
	}
	if err != nil {
		return fmt.Errorf("demo customer: %w", err)
	}
	return nil
}

// limits says which limits the workspace API of a new folder has.
func (c *Command) limits() string {
	if c.Limits == "production" {
		return "as in production"
	}
	return "raised to 1,000 signups an hour, 1,000 runs and 10,000 free runs a day"
}

func (c *Command) printSummary(running devdata.Running, signIn *config.SignIn) {
	fmt.Printf("\nTollgate is ready. Account %s, keys in %s\n\n", running.Account,
		devdata.Folder(c.Data).File())
	for _, node := range running.Nodes {
		fmt.Printf("  %-6s API http://%s   operations http://%s   pid %d\n",
			node.ID, node.HTTP, node.Ops, node.PID)
	}
	fmt.Printf("\n  sandbox key  %s\n  live key     %s\n  read key     %s\n  admin key    %s\n",
		running.SandboxKey, running.LiveKey, running.ReadKey, running.AdminKey)
	base := "http://" + running.Nodes[0].HTTP + "/api/v1/client"
	fmt.Printf(`
May customer %[1]s use a feature?

  curl -sS -w '\n' -H 'Authorization: Bearer %[2]s' \
    %[3]s/entitlements/%[1]s/output-tokens

Count what it used, at the time of the sandbox's clock (a repeat with the same key counts nothing):

  NOW=$(curl -sS -H 'Authorization: Bearer %[2]s' %[3]s/clock | grep -o '"now":"[^"]*' | cut -c8-)
  curl -sS -w '\n' -H 'Authorization: Bearer %[2]s' -H 'Content-Type: application/json' \
    %[3]s/events \
    -d '{"eventIdempotencyKey":"hello-%[4]s","eventName":"output-tokens","customerReferenceId":"%[1]s","usageUnits":1200,"occurredAt":"'$NOW'"}'

%[11]s
Agents begin at http://%[6]s/auth.md (workspace API, limits: %[7]s).
Mails are not sent: they are at http://%[9]s/mails.
%[8]s%[10]sCtrl-C stops the cluster; the data stays in %[5]s.
`, demoCustomer, running.SandboxKey, base, time.Now().UTC().Format("20060102T150405"),
		c.Data, running.Nodes[0].HTTP, c.limits(),
		c.sampleSummary(), running.Nodes[0].Ops, c.identitySummary(running),
		c.consoleSummary(running, signIn))
}
