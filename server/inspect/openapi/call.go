package openapi

import (
	"cmp"
	"net/url"
	"strconv"
	"strings"

	"tollgate/server/inspect/tree"
)

// shared is what a path item says about all of its operations.
type shared struct {
	server     string
	parameters map[string]bool // by place and name: must it be given
}

func (w *walker) shared(sources []*tree.Node) (s shared) {
	s.parameters = map[string]bool{}
	for _, item := range sources {
		w.parameters(item, s.parameters)
		if server := w.serverOf(item); server != "" {
			s.server = server
		}
	}
	return s
}

// parameters adds what a path item or an operation says of parameters.
func (w *walker) parameters(n *tree.Node, into map[string]bool) {
	list := n.Of("parameters").List()
	for i := range list {
		p := w.resolve(&list[i])
		if p == nil {
			into["unresolved "+strconv.Itoa(i)] = true
			continue
		}
		required := p.Of("required")
		into[p.TextOf("in")+" "+p.TextOf("name")] = required.Is(tree.Bool) && required.Value == "true"
	}
}

// call reads how an operation is called.
func (w *walker) call(o *Operation, n *tree.Node) {
	all := map[string]bool{}
	for name, required := range w.item.parameters {
		all[name] = required
	}
	w.parameters(n, all)
	for name, required := range all {
		if required && !strings.HasPrefix(name, "path ") {
			o.Given++
		}
	}
	o.Given += strings.Count(o.Path, "{")
	if responses := n.Of("responses"); responses.Is(tree.Map) {
		for _, code := range responses.Keys {
			if status, err := strconv.Atoi(code); err == nil && status/100 == 2 {
				o.Success = status
				break
			}
		}
	}
	o.Server = w.server
	for _, server := range []string{w.item.server, w.serverOf(n)} {
		if server != "" {
			o.Server = server
		}
	}
}

// serverOf is the first server that a document, a path item or an operation names, with its
// variables' defaults; of Swagger 2 scheme, host and base path.
func (w *walker) serverOf(n *tree.Node) string {
	if strings.HasPrefix(w.out.Format.Value, "Swagger") {
		return swaggerServer(n)
	}
	servers := n.Of("servers").List()
	if len(servers) == 0 {
		return ""
	}
	address := servers[0].TextOf("url")
	variables := servers[0].Of("variables")
	if variables.Is(tree.Map) {
		for i, name := range variables.Keys {
			address = strings.ReplaceAll(address, "{"+name+"}", variables.Items[i].Of("default").AsScalar())
		}
	}
	return shown(address)
}

func swaggerServer(n *tree.Node) string {
	host, base := n.TextOf("host"), n.TextOf("basePath")
	if host == "" {
		return shown(base)
	}
	scheme := ""
	for _, s := range n.Of("schemes").List() {
		if text := s.AsText(); text == "https" || scheme == "" {
			scheme = text
		}
	}
	u := url.URL{Scheme: scheme, Host: host, Path: base}
	return shown(u.String())
}

// Address is where an operation is called, by the server that its document names, relative to where
// the document was read; empty where it has none.
func (o *Operation) Address(readAt string) string {
	at, err := url.Parse(readAt)
	if err != nil || strings.ContainsAny(o.Server, "{}") {
		return ""
	}
	u, err := at.Parse(cmp.Or(o.Server, "/"))
	if err != nil || u.User != nil {
		return ""
	}
	u.RawQuery, u.Fragment = "", ""
	return strings.TrimSuffix(u.String(), "/") + "/" + strings.TrimPrefix(o.Path, "/")
}
