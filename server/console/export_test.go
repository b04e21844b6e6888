package console

import (
	"crypto/sha256"
	"strings"

	api "tollgate/sdk/go"
)

// RowOf is a row of the pages, as tests go through them.
type RowOf struct {
	Method, Path, Name     string
	Cluster, Account, Live bool
	Harmless, Local        bool
}

// Rows lists all pages and forms.
func (s *Console) Rows() (all []RowOf) {
	for _, rows := range s.rows() {
		for i := range rows {
			r := &rows[i]
			all = append(all, RowOf{
				Method: r.method, Path: Root + r.path, Name: r.name, Cluster: r.reach == reachCluster,
				Account: r.reach >= reachAccount, Live: r.live || strings.HasSuffix(r.path, "/live"),
				Harmless: r.harmless, Local: r.local,
			})
		}
	}
	return all
}

// Sample takes a sample of the load, as every five seconds.
func (s *Console) Sample() { s.pulse.sample() }

// HashOf is what the log knows of a token.
func HashOf(token string) [32]byte { return sha256.Sum256([]byte(token)) }

// SentenceOf is what the page of changes says of a change, and whether its action is known.
func SentenceOf(c *api.AdminChange) (text string, known bool) {
	_, known = sentences[c.Action]
	return sentence(c), known
}
