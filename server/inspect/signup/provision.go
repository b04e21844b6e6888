package signup

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"tollgate/server/inspect/tree"
)

// AgentAuth is the agent_auth block of OAuth's metadata (RFC 9728, RFC 8414), as the auth.md
// protocol has it: where agents register.
type AgentAuth struct {
	Block *tree.Node
	// URL is where they register, as it is written.
	URL string
	// Identities are what the block says of identities where an agent must have one; else nil.
	Identities *tree.Node
}

// AgentAuthOf is the block of a document; false where it names no place to register.
func AgentAuthOf(root *tree.Node) (a AgentAuth, is bool) {
	a.Block = root.Of("agent_auth")
	for _, name := range []string{"register_uri", "identity_endpoint", "registration_endpoint"} {
		a.URL = cmp.Or(a.URL, a.Block.TextOf(name))
	}
	kinds := a.Block.Of("identity_types_supported")
	if kinds != nil && !slices.ContainsFunc(kinds.List(), func(n tree.Node) bool {
		return n.AsText() == "anonymous"
	}) {
		a.Identities = kinds
	}
	return a, a.URL != ""
}

// Provision is a provisioning block of pricing.json: the request by which a plan is begun. No
// standard says how one is written; the DESIGN.md of the agent that follows them says what is read.
type Provision struct {
	Block *tree.Node
	// URL is where the request goes, as it is written.
	URL string
}

// Provisions are the provisioning blocks of a document and of its plans.
func Provisions(root *tree.Node) (all []Provision) {
	blocks := []*tree.Node{root.Of("provisioning")}
	for i := range root.Of("plans").List() {
		blocks = append(blocks, root.Of("plans").Items[i].Of("provisioning"))
	}
	for _, block := range blocks {
		p := Provision{Block: block}
		for _, name := range []string{"url", "endpoint", "signup_url", "signupUrl", "href"} {
			p.URL = cmp.Or(p.URL, block.TextOf(name))
		}
		method := strings.ToUpper(block.TextOf("method"))
		if p.URL != "" && (method == "" || method == http.MethodPost) {
			all = append(all, p)
		}
	}
	return all
}

// Workflows are the workflows of an Arazzo document (1.0) that sign somebody up by what they are
// called.
func Workflows(root *tree.Node) (all []*tree.Node) {
	if !strings.HasPrefix(root.Of("arazzo").AsScalar(), "1.") {
		return nil
	}
	for i := range root.Of("workflows").List() {
		n := &root.Of("workflows").Items[i]
		if Called(n.TextOf("workflowId") + " " + n.TextOf("summary")) {
			all = append(all, n)
		}
	}
	return all
}

// maxReferences is how many $ref are followed one after the other.
const maxReferences = 16

// Referred is what a node of a document stands for: references within the document are followed.
// Nil where they lead nowhere.
func Referred(root, n *tree.Node) *tree.Node {
	for range maxReferences {
		reference := n.Of("$ref")
		if reference == nil {
			return n
		}
		n = root.Follow(reference.AsText())
	}
	return nil
}
