package admin

import (
	"cmp"
	"math"
	"strconv"
	"strings"

	"tollgate/engine/billing"
	"tollgate/server"
)

// Pages of the record of changes.
const (
	defaultChanges = 100
	maxChanges     = 1000
	// scannedActs bounds how many acts one page looks at: those of owners are passed over.
	scannedActs = 100_000
	// maxChangeCursor is the length of two numbers with a point between them.
	maxChangeCursor = 31
)

// Act is what an operator did for the owner of a workspace. Its group of the log keeps it.
type Act struct {
	// Change has the number among the acts; it names no account.
	Change billing.ChangeView
	// Workspace is the id of the workspace.
	Workspace string
}

// changeCursor is where a page of changes begins: below a change of the billing group and below an
// act. 0 is from the newest on, 1 is none.
type changeCursor struct {
	change uint64
	act    uint32
}

func readChangeCursor(x *server.Exchange, w *walk) (c changeCursor) {
	given := string(x.Ctx.QueryArgs().Peek("cursor"))
	if given == "" {
		return c
	}
	first, second, both := strings.Cut(given, ".")
	change, ok := server.WholeNumber(first, 1, math.MaxUint64)
	act, ok2 := uint64(0), true
	if both {
		act, ok2 = server.WholeNumber(second, 0, math.MaxUint32)
	}
	w.when(!ok || !ok2, "cursor", server.FieldFormat, "must be nextCursor of the page before")
	return changeCursor{change, uint32(act)}
}

// String is the cursor as requests have it; empty where nothing follows.
func (c changeCursor) String() string {
	if c.change == 1 && c.act == 1 {
		return ""
	}
	return strconv.FormatUint(c.change, 10) + "." + strconv.FormatUint(uint64(c.act), 10)
}

// listChanges is GET /audit: what operators changed, newest first, of both groups of the log.
func (a *accounts) listChanges(x *server.Exchange) *server.Fault {
	var w walk
	limit := pageSize(x, &w, defaultChanges, maxChanges)
	from := readChangeCursor(x, &w)
	if fault := cmp.Or(w.fault(), a.noJournal()); fault != nil {
		return fault
	}
	return a.read(x, func() *server.Fault {
		changes, err := a.machine.Changes(a.events, from.change, limit)
		if err != nil {
			return a.journalFailed(x, err)
		}
		acts, next, ok := a.acts(from.act, limit, server.OwnMemory(x))
		if !ok {
			return server.FaultConsistency
		}
		newest, to := newestFirst(changes, acts, limit)
		to = to.after(from, changes, acts, next)
		return server.Page(x, "changes", newest, writeChange, to.String())
	})
}

// acts are a page of what operators did for owners of workspaces, which may be stale; not ok where
// this node cannot tell.
func (a *accounts) acts(before uint32, limit int, stale bool) (list []Act, next uint32, ok bool) {
	if a.operatorActs == nil || before == 1 {
		return nil, 0, true
	}
	return a.operatorActs(before, limit, scannedActs, stale)
}

// newestFirst joins two lists that are newest first, at most limit of them, and says below which of
// each the next page begins; 0 of a list of which none was taken.
func newestFirst(
	changes []billing.ChangeView, acts []Act, limit int,
) (list []Act, to changeCursor) {
	for len(list) < limit && (len(changes) > 0 || len(acts) > 0) {
		if len(acts) == 0 || len(changes) > 0 && changes[0].At >= acts[0].Change.At {
			list, to.change = append(list, Act{Change: changes[0]}), changes[0].Number
			changes = changes[1:]
			continue
		}
		list, to.act = append(list, acts[0]), uint32(acts[0].Change.Number)
		acts = acts[1:]
	}
	return list, to
}

// after completes where the next page begins: where a list was taken whole, behind all that was
// looked at for it, and where nothing of it was taken, where this page began.
func (c changeCursor) after(
	from changeCursor, changes []billing.ChangeView, acts []Act, next uint32,
) changeCursor {
	switch n := len(changes); {
	case n == 0:
		c.change = 1
	case c.change == 0:
		c.change = cmp.Or(from.change, math.MaxInt64)
	}
	switch n := len(acts); {
	case n == 0 || c.act == uint32(acts[n-1].Change.Number):
		c.act = max(next, 1)
	case c.act == 0:
		c.act = from.act
	}
	return c
}

func writeChange(data *server.JSON, act *Act) {
	c := &act.Change
	data.Open('{')
	data.Uint("number", c.Number)
	data.Time("at", c.At)
	data.Text("actor", c.Actor)
	data.Text("action", c.Action)
	data.TextIf("account", c.Account)
	data.TextIf("workspace", act.Workspace)
	data.TextIf("environment", c.Environment.String())
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

func changeSchema() *server.Schema {
	return server.Object(
		server.Must("number", server.IntegerSchema),
		server.May("workspace", text(1, 0)),
		server.Must("at", server.TimeSchema),
		server.Must("actor", text(0, 0)),
		server.Must("action", text(1, 0)),
		server.May("account", text(1, 64)),
		server.May("environment", server.EnumSchema("live", "sandbox")),
		server.May("subject", text(1, 0)),
		server.Must("before", server.FreeObject()),
		server.Must("after", server.FreeObject()),
	)
}
