package openapi

import (
	"cmp"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"tollgate/server/inspect/tree"
)

// parameter names one: by place and name.
type parameter struct{ in, name string }

// shared is what a path item says about all of its operations.
type shared struct {
	server     string
	parameters map[parameter]bool // must it be given
	// more reports whether not all of them were read.
	more bool
}

func (w *walker) shared(sources []*tree.Node) (s shared) {
	s.parameters = map[parameter]bool{}
	for _, item := range sources {
		s.more = !w.parameters(item, s.parameters) || s.more
		if server := w.serverOf(item); server != "" {
			s.server = server
		}
	}
	return s
}

// parameters adds what a path item or an operation says of parameters; false reports whether there
// are more than are read.
func (w *walker) parameters(n *tree.Node, into map[parameter]bool) (all bool) {
	list := n.Of("parameters").List()
	for i := range list {
		if i == MaxParameters || !w.spend(1) {
			w.leftOut(fmt.Sprintf("operations with more than %d parameters", MaxParameters))
			return false
		}
		p := w.resolve(&list[i])
		if p == nil {
			into[parameter{"unresolved", strconv.Itoa(len(into))}] = true
			continue
		}
		required := p.Of("required")
		into[parameter{shown(p.TextOf("in")), shown(p.TextOf("name"))}] = required.Is(tree.Bool) &&
			required.Value == "true"
	}
	return true
}

func (w *walker) call(o *Operation, n *tree.Node) {
	all := make(map[parameter]bool, len(w.item.parameters))
	for name, required := range w.item.parameters {
		all[name] = required
	}
	w.spend(len(all))
	if !w.parameters(n, all) || w.item.more {
		o.Given++ // one that was not read may have to be
	}
	for name, required := range all {
		if required && name.in != "path" {
			o.Given++
		}
	}
	o.Given += strings.Count(o.Path, "{")
	if responses := n.Of("responses"); responses.Is(tree.Map) {
		for _, code := range responses.Keys {
			if len(code) == 3 && code[0] == '2' {
				if status, err := strconv.Atoi(code); err == nil {
					o.Success = status
					break
				}
			}
			if !w.spend(1) {
				return
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
	return w.filled(servers[0].TextOf("url"), servers[0].Of("variables"))
}

// tooLong is a server whose address is longer than is read: what is between braces leads nowhere.
const tooLong = "{too long}"

// filled is an address with its variables' defaults. It is read once, from left to right: a default
// that names variables again would grow without end.
func (w *walker) filled(address string, variables *tree.Node) string {
	var b strings.Builder
	for rest, more := address, true; more && b.Len() <= maxName; {
		var before string
		before, rest, more = strings.Cut(rest, "{")
		b.WriteString(tree.Cut(before, maxName+1))
		if !more {
			break
		}
		name, _, closed := strings.Cut(tree.Cut(rest, 2*maxName), "}")
		value := variables.Of(name).Of("default")
		if !closed || value == nil || !w.spend(named(name)) {
			b.WriteByte('{')
			continue
		}
		b.WriteString(tree.Cut(value.AsScalar(), maxName+1))
		rest = rest[len(name)+1:]
	}
	if b.Len() > maxName {
		return tooLong
	}
	return b.String()
}

func swaggerServer(n *tree.Node) string {
	host, base := n.TextOf("host"), n.TextOf("basePath")
	if len(host)+len(base) > maxName {
		return tooLong
	}
	if host == "" {
		return base
	}
	scheme, schemes := "", n.Of("schemes").List()
	for i := range schemes[:min(len(schemes), 5)] {
		if text := schemes[i].AsText(); text == "https" || scheme == "" {
			scheme = shown(text)
		}
	}
	u := url.URL{Scheme: scheme, Host: host, Path: base}
	return u.String()
}

// Address is where an operation is called, by the server that its document names, relative to where
// the document was read; empty if it has none.
func (o *Operation) Address(readAt string) string {
	at, err := url.Parse(readAt)
	if err != nil || o.long || strings.ContainsAny(o.Server, "{}") {
		return ""
	}
	u, err := at.Parse(cmp.Or(o.Server, "/"))
	if err != nil || u.User != nil {
		return ""
	}
	u.RawQuery, u.Fragment = "", ""
	return strings.TrimSuffix(u.String(), "/") + "/" + strings.TrimPrefix(o.Path, "/")
}
