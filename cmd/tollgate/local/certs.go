package local

import (
	"fmt"

	"tollgate/cmd/tollgate/certs"
)

// CertsCommand makes certificates for nodes.
type CertsCommand struct {
	Out  string   `default:"certs" help:"Folder for the files. If it has an authority, that one is used."`
	Host []string `placeholder:"NAME" help:"Host name or address at which others reach the nodes; repeatable."`
	Node []string `arg:"" help:"Names of the nodes to make certificates for."`
}

// Run makes one certificate for each node.
func (c *CertsCommand) Run() error {
	authority, err := certs.OpenAuthority(c.Out)
	if err != nil {
		return err
	}
	for _, node := range c.Node {
		if err = authority.Issue(c.Out, node, c.Host); err != nil {
			return err
		}
		fmt.Printf("%s: %s and %s\n", node, certs.CertificateFile(node), certs.KeyFile(node))
	}
	fmt.Printf("In %s. Nodes need %s and their own two files; the authority's key stays at home.\n",
		c.Out, certs.AuthorityFile)
	return nil
}
