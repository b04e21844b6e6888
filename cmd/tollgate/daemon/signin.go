package daemon

import (
	"fmt"
	"net"
	"net/url"

	"tollgate/cmd/tollgate/config"
	"tollgate/engine/workspace"
	"tollgate/server/console"
	"tollgate/server/identity"
	"tollgate/server/provider/fetch"
)

// openSignIn makes what signs people and agents in, for one of the two listeners; nil where no
// issuer is configured.
func (n *node) openSignIn(surface workspace.Surface) (*identity.Service, error) {
	s := &n.settings.SignIn
	if s.Persons.Issuer == "" || surface == workspace.SurfaceOperations && !s.OperatorsSignIn() {
		return nil, nil
	}
	web, err := n.issuerClient()
	if err != nil {
		return nil, err
	}
	group := n.cluster.Workspace()
	c := identity.Config{
		Machine: n.tenants.machine, Proposer: group, Reader: group, Surface: surface, Web: web,
		PublicURL: n.settings.BaseURL(), Origin: s.Origin, Development: s.Development,
		Persons: identity.Issuer{
			URL: s.Persons.Issuer, ClientID: s.Persons.ClientID, ClientSecret: s.Persons.ClientSecret,
		},
		Now: n.cluster.Now, Log: n.log,
	}
	if surface == workspace.SurfaceWorkspaces {
		c.Agents = identity.Issuer{
			URL: s.Agents.Issuer, ClientID: s.Agents.ClientID, ClientSecret: s.Agents.ClientSecret,
		}
	} else {
		c.PublicURL, c.Origin = n.settings.OpsBase(), ""
		c.Allow = func(issuer, email string) bool { return len(s.Allows(issuer, email)) > 0 }
	}
	if c.Key, err = n.sealKey(); err != nil {
		return nil, err
	}
	if c.Proxies, err = config.ParseNetworks(n.settings.Proxies); err != nil {
		return nil, fmt.Errorf("proxies: %w", err)
	}
	return identity.New(c)
}

// openOperators makes the operators' way in by name; nil if none is configured.
func (n *node) openOperators() (*console.SignedIn, error) {
	service, err := n.openSignIn(workspace.SurfaceOperations)
	if service == nil {
		return nil, err
	}
	var members []console.Member
	for _, o := range n.settings.SignIn.Operators {
		members = append(members, console.Member{
			Email: o.Email,
			Grant: console.Grant{Account: o.Account(), Manage: o.May == config.OperatorManage},
		})
	}
	return &console.SignedIn{
		Service: service, Members: members, Grants: func(issuer, email string) (grants []console.Grant) {
			for _, o := range n.settings.SignIn.Allows(issuer, email) {
				grants = append(grants, console.Grant{
					Account: o.Account(), Manage: o.May == config.OperatorManage,
				})
			}
			return grants
		},
	}, nil
}

// issuerClient makes the guarded client for issuers, which may go to their ports, and to the
// networks that are named for them.
func (n *node) issuerClient() (*fetch.Client, error) {
	s := &n.settings.SignIn
	var hosts []string
	for _, issuer := range []string{s.Persons.Issuer, s.Agents.Issuer} {
		u, err := url.Parse(issuer)
		if err != nil {
			return nil, fmt.Errorf("signIn: %w", err)
		}
		if u.Port() != "" {
			hosts = append(hosts, net.JoinHostPort(u.Hostname(), u.Port()))
		}
	}
	return n.clientFor("signIn", false, hosts, s.AllowNetworks)
}
