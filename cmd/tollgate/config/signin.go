package config

import (
	"cmp"
	"net"
	"net/netip"
	"net/url"
	"strings"

	"tollgate/engine/workspace"
)

// SignIn says who names the people and agents that sign in; the same on each node.
type SignIn struct {
	// Persons and Agents are OpenID Connect providers; an issuer that is empty is none. Without
	// Persons, sign-in is off.
	Persons Issuer `yaml:"persons"`
	Agents  Issuer `yaml:"agents"`
	// Origin is where pages come from that change something; empty is publicURL's.
	Origin string `yaml:"origin"`
	// OpsURL is where the operations listener is reached by operators' browsers, https://host
	// without a path (http on loopback); empty is Ops.
	OpsURL string `yaml:"opsURL"`
	// Operators are who may use the operators' pages. With none, or without Persons, the admin key
	// opens a session there.
	Operators []Operator `yaml:"operators"`
	// AdminKey lets it do so with operators, too: for when the identity provider does not answer.
	AdminKey bool `yaml:"adminKey"`
	// AllowNetworks are private networks in which the issuers may be, for their requests alone.
	AllowNetworks []string `yaml:"allowNetworks"`
	// Development lets the provider of `tollgate dev` sign people in, which proves nothing: on
	// loopback alone.
	Development bool `yaml:"development"`
}

// Issuer is an OpenID Connect provider, and how it knows this cluster.
type Issuer struct {
	// Issuer is its name and address, https://host and a path.
	Issuer       string `yaml:"issuer"`
	ClientID     string `yaml:"clientId"`
	ClientSecret string `yaml:"clientSecret" secret:"true"`
}

// What operators may do, and on what.
const (
	OperatorView    = "view"
	OperatorManage  = "manage"
	OperatorCluster = "cluster"
	operatorAccount = "account:"
)

// Operator is somebody who may use the operators' pages.
type Operator struct {
	// Issuer is the provider that vouches for Email; empty is that of Persons.
	Issuer string `yaml:"issuer"`
	Email  string `yaml:"email"`
	// On is cluster, or account: and an account's name, as its addresses have it. May is view or
	// manage.
	On  string `yaml:"on"`
	May string `yaml:"may"`
}

// Account is the account's name; empty is the whole cluster.
func (o *Operator) Account() string {
	account, _ := strings.CutPrefix(o.On, operatorAccount)
	if account == o.On {
		return ""
	}
	return account
}

// OperatorsSignIn reports whether operators sign in by name.
func (s *SignIn) OperatorsSignIn() bool { return s.Persons.Issuer != "" && len(s.Operators) > 0 }

// KeySignsIn reports whether the admin key opens a session of the operators' pages.
func (s *SignIn) KeySignsIn() bool { return s.AdminKey || !s.OperatorsSignIn() }

// Allows reports whether an identity is an operator, and returns its rows.
func (s *SignIn) Allows(issuer, email string) (rows []Operator) {
	for _, o := range s.Operators {
		by := cmp.Or(o.Issuer, s.Persons.Issuer)
		if email != "" && by == issuer &&
			workspace.Address(o.Email) == workspace.Address(email) {
			rows = append(rows, o)
		}
	}
	return rows
}

func (i *Issuer) validate(name string, development bool, complain complainer) {
	if *i == (Issuer{}) {
		return
	}
	u, err := url.Parse(i.Issuer)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" ||
		u.Scheme != "https" && !(development && u.Scheme == "http") {
		complain("signIn.%s.issuer: %q: want https://host and a path", name, i.Issuer)
	}
	complain.when(i.ClientID == "",
		"signIn.%s.clientId: want the name that the issuer knows this cluster by", name)
}

// validateSignIn complains about the section signIn.
func (c *Config) validateSignIn(complain complainer) {
	s := &c.SignIn
	s.Persons.validate("persons", s.Development, complain)
	s.Agents.validate("agents", s.Development, complain)
	complain.when(s.Agents.Issuer != "" && s.Persons.Issuer == "",
		"signIn.persons: want an issuer of persons too: they own what agents work in")
	for name, text := range map[string]string{"origin": s.Origin, "opsURL": s.OpsURL} {
		u, err := url.Parse(text)
		if text != "" && (err != nil || u.Host == "" || u.Path != "" || u.User != nil ||
			u.Scheme != "http" && u.Scheme != "https") {
			complain("signIn.%s: %q: want http(s)://host without a path", name, text)
		}
	}
	complain.networks("signIn.allowNetworks", s.AllowNetworks)
	for i, o := range s.Operators {
		if !strings.Contains(o.Email, "@") || o.May != OperatorView && o.May != OperatorManage ||
			o.On != OperatorCluster && o.Account() == "" {
			complain("signIn.operators[%d]: want an email, on: cluster or account:NAME, and may: view or "+
				"manage", i)
		}
		complain.when(s.Persons.Issuer == "" || o.Issuer != "" && o.Issuer != s.Persons.Issuer,
			"signIn.operators[%d]: its issuer must be that of signIn.persons", i)
	}
	if u, err := url.Parse(c.BaseURL()); s.Persons.Issuer != "" &&
		(err != nil || u.Scheme != "https" && !Loopback(u.Hostname())) {
		complain("signIn: the public address is %s: sessions do not go in plaintext; set publicURL to "+
			"https://host, with httpTLS or a proxy that ends TLS", c.BaseURL())
	}
	c.validateOpsURL(complain)
	if s.Development {
		for name, address := range map[string]string{"http": c.HTTP, "ops": c.Ops} {
			if host, _, err := net.SplitHostPort(address); err != nil || !Loopback(host) {
				complain("signIn.development: %s is %s: its identity provider lets anybody be anybody, so "+
					"it is for loopback alone; configure signIn.persons with a real issuer",
					name, address)
			}
		}
		for name, text := range map[string]string{"publicURL": c.PublicURL, "signIn.opsURL": s.OpsURL} {
			if u, err := url.Parse(text); err != nil || text != "" && !Loopback(u.Hostname()) {
				complain("signIn.development: %s is %s: want none, or one of loopback", name, text)
			}
		}
	}
}

// validateOpsURL complains about an address that operators' browsers cannot be sent back to, or to
// which a session would cross the network in plaintext.
func (c *Config) validateOpsURL(complain complainer) {
	if !c.SignIn.OperatorsSignIn() {
		return
	}
	u, err := url.Parse(c.OpsBase())
	if err != nil {
		return // it is complained about already
	}
	addr, err := netip.ParseAddr(u.Hostname())
	switch {
	case u.Hostname() == "" || err == nil && addr.IsUnspecified():
		complain("signIn.opsURL: want https://host, where operators' browsers reach this node or a "+
			"proxy in front: %s is not an address for a browser", c.Ops)
	case u.Scheme != "https" && !Loopback(u.Hostname()):
		complain("signIn.opsURL: %s: want https: operators' sessions must not cross the network in "+
			"plaintext; set opsTLS, or the address of a proxy that ends TLS", c.OpsBase())
	}
}

// Loopback reports whether a host is this machine alone.
func Loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// OpsBase is where operators' browsers reach the operations listener, without a slash at its end.
func (c *Config) OpsBase() string {
	switch {
	case c.SignIn.OpsURL != "":
		return c.SignIn.OpsURL
	case c.OpsTLS != (Certificate{}):
		return "https://" + c.Ops
	}
	return "http://" + c.Ops
}
