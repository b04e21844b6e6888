package workspaceapi

import (
	"strings"
	"unicode/utf8"

	"tollgate/engine/workspace"
	"tollgate/server"
	"tollgate/server/form"
)

const (
	// maxSought is the longest text that anything is found by, in bytes.
	maxSought = 300
	// flowsSought bounds the flows that a search reads, the newest first; foundUsual is how many
	// records it answers where the request does not say.
	flowsSought, foundUsual = 2000, 20
)

// Found is a record of a workspace that a text names.
//
//schema:answer workspaceapi Found server
type Found struct {
	Kind string `json:"kind" rule:"oneof=run|flow|purchase|issue"`
	// ID is what the record is asked for by.
	ID     string `json:"id" rule:"min=1"`
	Title  string `json:"title" rule:"min=1"`
	Detail string `json:"detail,omitzero" rule:"min=1"`
}

func (b *base) searchRoutes() []server.Route {
	return []server.Route{
		row("GET", "/v1/search", "search", "Flows by their text; runs, purchases and issues by their id",
			read, b.search, agents, func(r *server.Route) {
				r.Params = append(r.Params,
					server.Param{
						In: "query", Name: "q", Required: true, Schema: server.TextSchema(1, maxSought),
						About: "part of a flow's name, task or URL, in any case; or a record's whole id",
					},
					server.Param{In: "query", Name: "limit", Schema: server.IntSchema(1, 100), About: "20"})
			},
			gives(200, "Named ones first, then flows from the newest",
				server.Must("results", server.ArrayOf(server.AnswerSchema[Found]())),
				server.Must("complete", server.BoolSchema.Explain(
					"false where only the newest 2000 flows were read")))),
	}
}

func (b *base) search(x *server.Exchange) *server.Fault {
	args, limit := x.Ctx.QueryArgs(), foundUsual
	sought := string(args.Peek("q"))
	if sought == "" || len(sought) > maxSought {
		return badField("invalid_field", "q")
	}
	if args.Has("limit") {
		n, ok := server.WholeNumber(string(args.Peek("limit")), 1, 100)
		if !ok {
			return wrongField(form.Outside(1, 100).Of("limit"))
		}
		limit = int(n)
	}
	return b.read(x, func() *server.Fault {
		found, complete := b.Search(tenant(x).Workspace, sought, limit)
		return x.BareObject(200, func(j *server.JSON) {
			writeAll(j, "results", found, writeFound)
			j.Bool("complete", complete)
		})
	})
}

// Search finds the records of a workspace that a text names: flows by a part of their name, task or
// URL, and each kind by its whole id. complete is false where there are more flows than it reads. A
// text that nothing can be named finds nothing.
func (b *base) Search(ws uint32, sought string, limit int) (found []Found, complete bool) {
	sought = strings.TrimSpace(sought)
	if sought == "" || len(sought) > maxSought || !utf8.ValidString(sought) {
		return nil, true
	}
	if f, ok := b.named(ws, sought); ok {
		return []Found{f}, true
	}
	text, p := strings.ToLower(sought), workspace.Page{Limit: 100}
	for seen := 0; seen < flowsSought; {
		flows, more := b.machine.Flows(ws, p) // each page takes the lock by itself
		for i := range flows {
			f := &flows[i]
			if !strings.Contains(strings.ToLower(f.Name), text) &&
				!strings.Contains(strings.ToLower(f.URL), text) &&
				!strings.Contains(strings.ToLower(f.Task), text) {
				continue
			}
			if found = append(found, foundFlow(f)); len(found) == limit {
				return found, true
			}
		}
		if !more {
			return found, true
		}
		seen += len(flows)
		p.After = flows[len(flows)-1].ID
	}
	return found, false
}

// named finds the record of a whole id.
func (b *base) named(ws uint32, text string) (f Found, ok bool) {
	if id, is := parseID(markFlow, text); is {
		v, known := b.machine.Flow(ws, id)
		return foundFlow(&v), known
	}
	if id, is := parseID(markRun, text); is {
		v, known := b.machine.Run(ws, id)
		f = Found{Kind: "run", ID: text, Title: "Run", Detail: v.Status.String()}
		if outcome := v.Outcome.String(); outcome != "" {
			f.Detail += ", " + outcome
		}
		if flow, saved := b.machine.Flow(ws, v.Flow); saved {
			f.Title = "Run of " + flow.Name
		}
		return f, known
	}
	if id, is := parseID(markPurchase, text); is {
		v, known := b.machine.Purchase(ws, id)
		return Found{Kind: "purchase", ID: text, Title: "Purchase", Detail: v.Status.String()}, known
	}
	if id, is := parseID(markIssue, text); is {
		v, known := b.machine.Issue(ws, id)
		return Found{Kind: "issue", ID: text, Title: "Issue", Detail: v.Reason}, known
	}
	return f, false
}

func foundFlow(f *workspace.FlowView) Found {
	return Found{Kind: "flow", ID: idText(markFlow, f.ID), Title: f.Name, Detail: f.URL}
}
