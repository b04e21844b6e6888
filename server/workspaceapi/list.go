package workspaceapi

import (
	"net/url"
	"strconv"

	"tollgate/engine/workspace"
	"tollgate/server"
	"tollgate/server/form"
)

// pageOf reads ?limit= and &cursor=; a cursor is the id of the last record of the page before.
func pageOf(x *server.Exchange, mark string) (p workspace.Page, wrong *server.Fault) {
	p.Limit = 100
	args := x.Ctx.QueryArgs()
	if args.Has("limit") {
		n, ok := server.WholeNumber(string(args.Peek("limit")), 1, 100)
		if !ok {
			return p, wrongField(form.Outside(1, 100).Of("limit"))
		}
		p.Limit = int(n)
	}
	if cursor := string(args.Peek("cursor")); cursor != "" {
		var ok bool
		if p.After, ok = parseID(mark, cursor); !ok {
			return p, wrongField(form.NotCursor.Of("cursor"))
		}
	}
	return p, nil
}

// list answers a page of records, newest first.
func list[T any](a *base, x *server.Exchange, name, mark string,
	read func(uint32, workspace.Page) ([]T, bool), write func(*server.JSON, *T),
	id func(*T) [16]byte,
) *server.Fault {
	p, wrong := pageOf(x, mark)
	if wrong != nil {
		return wrong
	}
	return a.read(x, func() *server.Fault {
		views, more := read(tenant(x).Workspace, p)
		return x.BareObject(200, func(j *server.JSON) {
			writeAll(j, name, views, write)
			if !more {
				null(j, "next_cursor")
				return
			}
			cursor := idText(mark, id(&views[len(views)-1]))
			j.Text("next_cursor", cursor)
			next := a.publicURL + x.Route.Path + "?limit=" + strconv.Itoa(p.Limit) +
				"&cursor=" + url.QueryEscape(cursor)
			x.Ctx.Response.Header.Set("Link", "<"+next+`>; rel="next"`)
		})
	})
}

// writeAll writes records under a name.
func writeAll[T any](j *server.JSON, name string, all []T, write func(*server.JSON, *T)) {
	j.Array(name)
	for i := range all {
		write(j, &all[i])
	}
	j.Close(']')
}

func null(j *server.JSON, name string) { j.Raw(name, []byte("null")) }

// textOrNull writes a string, or null where it is empty.
func textOrNull(j *server.JSON, name, value string) {
	if value == "" {
		null(j, name)
		return
	}
	j.Text(name, value)
}

// timeOrNull writes an instant, or null if there is none.
func timeOrNull(j *server.JSON, name string, ms int64) {
	if ms == 0 {
		null(j, name)
		return
	}
	j.Time(name, ms)
}

// idOrNull writes an id, or null if there is none.
func idOrNull(j *server.JSON, name, mark string, id [16]byte) {
	if id == ([16]byte{}) {
		null(j, name)
		return
	}
	j.Text(name, idText(mark, id))
}

// one answers one record under a name.
func one[T any](a *base, x *server.Exchange, name string, status int,
	read func() (T, bool), write func(*server.JSON, *T),
) *server.Fault {
	return a.read(x, func() *server.Fault {
		v, ok := read()
		if !ok {
			return no("not_found")
		}
		return x.BareObject(status, func(j *server.JSON) {
			j.Name(name)
			write(j, &v)
		})
	})
}
