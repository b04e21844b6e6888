package daemon

import (
	"github.com/valyala/fasthttp"

	"tollgate"
	"tollgate/cluster"
	"tollgate/docs"
	"tollgate/server/admin"
	"tollgate/server/client"
	"tollgate/server/console/manual"
)

// documents puts the documents in front of both listeners' handlers: the handbook, and the
// reference of the clients' APIs on both, that of the admin API on the operations listener alone.
func (n *node) documents(
	operations *admin.API,
) (public, ops func(fasthttp.RequestHandler) fasthttp.RequestHandler, err error) {
	m, err := manual.New(docs.Files, n.gate, n.log)
	if err != nil {
		return nil, nil, err
	}
	pages, err := manual.Handbook(cluster.Operations)
	if err != nil {
		return nil, nil, err
	}
	files, err := manual.RootFiles(tollgate.Changelog, tollgate.Security)
	if err != nil {
		return nil, nil, err
	}
	pages = append(pages, files...)
	add := func(document []byte, name, source string) {
		var more []manual.Page
		if err == nil {
			more, err = manual.Reference(document, manual.ReferenceRoot+name, source)
		}
		pages = append(pages, more...)
	}
	add(n.client.Document(), "client", client.Prefix+"/openapi.json")
	add(n.tenants.api.Document(), "workspace", "/openapi.json")
	everybodys := pages
	add(operations.Document(), "admin", admin.Prefix+"/openapi.json")
	if err != nil {
		return nil, nil, err
	}
	if public, err = m.Over(everybodys); err != nil {
		return nil, nil, err
	}
	ops, err = m.Over(pages)
	return public, ops, err
}
