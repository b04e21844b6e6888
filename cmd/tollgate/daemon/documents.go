package daemon

import (
	"sync"

	"tollgate"
	"tollgate/cluster"
	"tollgate/docs"
	"tollgate/server"
	"tollgate/server/admin"
	"tollgate/server/client"
	"tollgate/server/console/manual"
)

// documents puts the documents in front of both listeners' handlers: the handbook, and the
// reference of the clients' APIs on both, that of the admin API on the operations listener alone.
// They are rendered when the first of them is asked for: no start waits for that.
func (n *node) documents(operations *admin.API) (public, ops manual.Over) {
	both := sync.OnceValues(func() (overs [2]manual.Over, err error) {
		overs[0], overs[1], err = n.render(operations)
		return overs, err
	})
	later := func(i int) manual.Over {
		return manual.Later(n.log, func() (manual.Over, error) {
			overs, err := both()
			return overs[i], err
		})
	}
	return later(0), later(1)
}

func (n *node) render(operations *admin.API) (public, ops manual.Over, err error) {
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
	add := func(published server.Document, name, source string) {
		var document []byte
		if err == nil {
			document, err = published()
		}
		var more []manual.Page
		if err == nil {
			more, err = manual.Reference(document, manual.ReferenceRoot+name, source)
		}
		pages = append(pages, more...)
	}
	add(n.client.Document, "client", client.Prefix+"/openapi.json")
	add(n.tenants.api.Document, "workspace", "/openapi.json")
	everybodys := pages
	add(operations.Document, "admin", admin.Prefix+"/openapi.json")
	if err != nil {
		return nil, nil, err
	}
	if public, err = m.Over(everybodys); err != nil {
		return nil, nil, err
	}
	ops, err = m.Over(pages)
	return public, ops, err
}
