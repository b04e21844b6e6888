package dev

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"

	"tollgate/cmd/tollgate/config"
	"tollgate/cmd/tollgate/devdata"
	"tollgate/examples/devidp"
)

// identityFlags say where the identity provider of a cluster for development is.
type identityFlags struct {
	IdentityPort int `default:"0" help:"Port of the local identity provider; 0 is any free one, -1 none: then no one can sign in. For a new folder."`

	listener net.Listener
}

// listenIdentity takes the port of the identity provider: the one that the settings of an earlier
// start name, or a new one.
func (c *identityFlags) listenIdentity(data devdata.Folder) error {
	port := c.IdentityPort
	old, err := config.Load(data.NodeConfig("node1"))
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return err
	case !old.SignIn.Development:
		port = -1
	default:
		u, err := url.Parse(old.SignIn.Persons.Issuer)
		if err != nil {
			return fmt.Errorf("signIn.persons.issuer: %w", err)
		}
		if port, err = strconv.Atoi(u.Port()); err != nil {
			port = -1 // another provider, which is not ours to serve
		}
	}
	if port < 0 {
		return nil
	}
	if c.listener, err = net.Listen("tcp", local(port)); err != nil {
		return fmt.Errorf("the identity provider cannot be served: %w", err)
	}
	return nil
}

// identityURL is where the provider is.
func (c *identityFlags) identityURL() string { return "http://" + c.listener.Addr().String() }

// believe configures a node of a new cluster to trust the names of the local provider.
func (c *identityFlags) believe(node *config.Config) {
	if c.listener == nil {
		return
	}
	node.SignIn.Development = true
	node.SignIn.Persons = config.Issuer{
		Issuer: c.identityURL() + devidp.PersonsPath, ClientID: devidp.ClientID,
	}
	node.SignIn.Agents = config.Issuer{
		Issuer: c.identityURL() + devidp.AgentsPath, ClientID: devidp.ClientID,
	}
	node.SignIn.Operators = []config.Operator{{
		Email: devOperator, On: config.OperatorCluster, May: config.OperatorManage,
	}}
	node.SignIn.AdminKey = true
}

// devOperator is who may use the operators' pages of a cluster for development.
const devOperator = "operator@localhost.test"

// serveIdentity serves the identity provider; nil if none is.
func (c *identityFlags) serveIdentity(
	keys devdata.Keys, nodes []config.Config,
) (*localSite, error) {
	if c.listener == nil {
		return nil, nil
	}
	var callbacks []string
	suggested := map[string]string{}
	for i := range nodes {
		operations := nodes[i].OpsBase() + "/login/callback"
		callbacks = append(callbacks, nodes[i].BaseURL()+"/login/callback", operations)
		for _, o := range nodes[i].SignIn.Operators {
			if suggested[operations] == "" {
				suggested[operations] = o.Email
			}
		}
	}
	provider, err := devidp.New(devidp.Config{
		URL: c.identityURL(), MailboxKey: keys.MailboxKey, Callbacks: callbacks,
		Suggested: suggested,
	})
	if err != nil {
		return nil, err
	}
	return serveLocal("identity provider", c.listener, provider), nil
}

// identitySummary says how people and agents sign in.
func (c *identityFlags) identitySummary(running devdata.Running) string {
	if running.Identity == "" {
		return ""
	}
	base := "http://" + running.Nodes[0].HTTP
	return fmt.Sprintf("People sign in at %[1]s/login as anybody they like, agents at "+
		"%[1]s/login/identity;\nthe provider at %[2]s is for this machine only. Mailbox key: %[3]s\n",
		base, running.Identity, running.MailboxKey)
}

// consoleSummary says how to open the operators' pages.
func (c *identityFlags) consoleSummary(running devdata.Running, settings *config.SignIn) string {
	text := "Operate it in a browser: http://" + running.Nodes[0].Ops + "/console (sign in "
	switch {
	case !settings.OperatorsSignIn():
		text += "with the admin key"
	case settings.KeySignsIn():
		text += "as " + settings.Operators[0].Email + ", or with the admin key"
	default:
		text += "as " + settings.Operators[0].Email
	}
	return text + ")."
}
