package admin

import (
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/wire"
	"tollgate/server"
)

// platformRoutes are the rows about what surrounds billing: customers' data, origins, the record of
// admin changes.
func (a *API) platformRoutes() []server.Route {
	return []server.Route{
		{
			Method: "DELETE", Path: environment + "/customers/{customer}", Operation: "removeCustomer",
			Access: server.AccessOperator, Handle: a.removeCustomer,
		},
		{
			Method: "PUT", Path: environment + "/origins", Operation: "setOrigins",
			Access: server.AccessOperator, Handle: a.putOrigins,
		},
		{
			Method: "GET", Path: environment + "/origins", Operation: "listOrigins",
			Access: server.AccessOperator, Handle: a.listOrigins,
		},
		{
			Method: "GET", Path: environment + "/margin", Operation: "showMargin",
			Access: server.AccessOperator, Handle: a.margin,
		},
		{
			Method: "GET", Path: Prefix + "/audit", Operation: "listChanges",
			Access: server.AccessOperator, Handle: a.listChanges,
		},
	}
}

// carryOut finds the environment that the path names, lets prepare put it into the command, and
// proposes that; a success has no data.
func (a *API) carryOut(
	x *server.Exchange, kind engine.Kind, prepare func(env uint32) wire.Fielder,
) {
	var command wire.Fielder
	a.environment(x, func(env uint32) *server.Fault {
		command = prepare(env)
		return nil
	})
	if command == nil {
		return
	}
	if result := a.propose(kind, wire.Encode(nil, command)); result.Outcome != engine.OutcomeDone {
		x.Refuse(server.FaultOf(result.Outcome))
		return
	}
	x.Succeed(200)
}

// removeCustomer is DELETE …/customers/{customer}: with erase=true it erases the customer's
// personal data, without it archives the customer.
func (a *API) removeCustomer(x *server.Exchange) {
	erase, fault := switchParam(x, "erase")
	if fault != nil {
		x.Refuse(*fault)
		return
	}
	id := string(x.Param(2))
	if utf8.RuneCountInString(id) > 128 || !printable(id) {
		x.Refuse(server.FaultFields.With("the customer's id must have 1–128 printable characters"))
		return
	}
	kind := billing.KindArchiveCustomer
	if erase {
		kind = billing.KindEraseCustomer
	}
	a.carryOut(x, kind, func(env uint32) wire.Fielder {
		if erase {
			return &billing.EraseCustomer{Env: env, ExternalID: id, Actor: actor}
		}
		return &billing.ArchiveCustomer{Env: env, ExternalID: id, Actor: actor}
	})
}

// putOrigins is PUT …/origins.
func (a *API) putOrigins(x *server.Exchange) {
	origins := []string{}
	var w walk
	fault := body(x, &w, map[string]reader{"origins": w.array(func(t *tree, place string) {
		var origin string
		w.text(&origin)(t, place)
		if len(w.problems) == 0 && !validOrigin(origin) {
			w.problem(place, "must be an origin such as https://shop.example, in lower case")
		}
		origins = append(origins, origin)
	})})
	if fault == nil && len(origins) > billing.MaxOrigins {
		w.problem("origins", "must be at most %d", billing.MaxOrigins)
		fault = w.fault()
	}
	if fault != nil {
		x.Refuse(*fault)
		return
	}
	a.carryOut(x, billing.KindSetOrigins, func(env uint32) wire.Fielder {
		return &billing.SetOrigins{Env: env, Origins: origins, Actor: actor}
	})
}

// validOrigin says that text is what browsers send as Origin.
func validOrigin(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Hostname() != "" &&
		len(text) <= 253+len("https://:65535") && text == u.Scheme+"://"+u.Host &&
		text == strings.ToLower(text)
}

// listOrigins is GET …/origins.
func (a *API) listOrigins(x *server.Exchange) {
	a.environment(x, func(env uint32) *server.Fault {
		data := x.Begin()
		data.Open('{')
		data.Array("origins")
		for _, origin := range a.machine.Origins(env) {
			data.String(origin)
		}
		data.Close(']')
		data.Close('}')
		x.End(200)
		return nil
	})
}

// Pages of the record of changes.
const (
	defaultChanges = 100
	mostChanges    = 1000
)

// listChanges is GET /audit: admin changes, newest first.
func (a *API) listChanges(x *server.Exchange) {
	limit, before, fault := changesPage(x)
	if fault != nil {
		x.Refuse(*fault)
		return
	}
	a.read(x, func() *server.Fault {
		changes := a.machine.Changes(before, limit)
		data := x.Begin()
		data.Open('{')
		data.Array("changes")
		for i := range changes {
			writeChange(data, &changes[i])
		}
		data.Close(']')
		if n := len(changes); n == limit && changes[n-1].Number > 1 {
			data.Text("nextCursor", strconv.FormatUint(uint64(changes[n-1].Number), 10))
		}
		data.Close('}')
		x.End(200)
		return nil
	})
}

func changesPage(x *server.Exchange) (limit int, before uint32, fault *server.Fault) {
	limit = defaultChanges
	var w walk
	if text := string(x.Ctx.QueryArgs().Peek("limit")); text != "" {
		n, err := strconv.Atoi(text)
		if limit = n; err != nil || n < 1 || n > mostChanges {
			w.problem("limit", "must be from 1 to %d", mostChanges)
		}
	}
	if text := string(x.Ctx.QueryArgs().Peek("cursor")); text != "" {
		n, err := strconv.ParseUint(text, 10, 32)
		if before = uint32(n); err != nil || n == 0 {
			w.problem("cursor", "must be nextCursor of the page before")
		}
	}
	return limit, before, w.fault()
}

func writeChange(data *server.JSON, c *billing.ChangeView) {
	data.Open('{')
	data.Uint("number", uint64(c.Number))
	data.Time("at", c.At)
	data.Text("actor", c.Actor)
	data.Text("action", c.Action)
	data.TextIf("account", c.Account)
	for name, kind := range environments {
		if kind == c.Environment {
			data.Text("environment", name)
		}
	}
	data.TextIf("subject", c.Subject)
	for _, side := range [...]struct {
		name  string
		value func(*billing.FieldChange) string
	}{
		{"before", func(f *billing.FieldChange) string { return f.Before }},
		{"after", func(f *billing.FieldChange) string { return f.After }},
	} {
		data.Name(side.name)
		*data = append(*data, '{')
		for i := range c.Values {
			if value := side.value(&c.Values[i]); value != "" {
				if (*data)[len(*data)-1] != '{' {
					*data = append(*data, ',')
				}
				*data = append(server.AppendString(*data, c.Values[i].Name), ':')
				*data = server.AppendString(*data, value)
			}
		}
		*data = append(*data, '}')
	}
	data.Close('}')
}
