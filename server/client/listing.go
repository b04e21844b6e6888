package client

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"slices"
	"strconv"

	"tollgate/engine/billing"
	"tollgate/engine/journal"
	"tollgate/server"
	"tollgate/server/form"
)

const (
	// defaultEvents and maxEvents are the sizes of a page of events.
	defaultEvents = 100
	maxEvents     = 1000
)

var faultJournal = server.NewFault(503, "journal_unavailable",
	"The events cannot be read at the moment").With(
	"Nothing was changed. Repeat the request, or ask another node.").Retry(1)

func (a *API) listEvents(x *server.Exchange, id string) *server.Fault {
	var f form.Reader
	q := eventQuery(x, &f)
	order := byTime
	switch text := query(x.Ctx, "order"); text {
	case "", "asc":
	case "desc":
		order, q.Descending = byTimeDescending, true
	default:
		f.Problem("order", form.NotAllowed("asc", "desc"))
	}
	q.After = eventCursor(x, &f, "cursor", order)
	if fault := f.Fault(); fault != nil {
		return fault
	}
	return a.ofCustomer(x, id, func(customer *billing.CustomerView) *server.Fault {
		q.Customer = customer.Row
		return a.answerEvents(x, order, func() (p billing.EventPage, err error) {
			p.Events, p.Next, err = a.machine.Events(a.events, q)
			return p, err
		})
	})
}

// listAllEvents is GET /events.
func (a *API) listAllEvents(x *server.Exchange) *server.Fault {
	var f form.Reader
	q := eventQuery(x, &f)
	q.After, q.Until = eventCursor(x, &f, "cursor", byLog), eventCursor(x, &f, "until", byLog)
	if fault := f.Fault(); fault != nil {
		return fault
	}
	return a.read(x, func() *server.Fault {
		return a.answerEvents(x, byLog, func() (billing.EventPage, error) {
			return a.machine.NewestEvents(a.events, principal(x).Env, &q)
		})
	})
}

// answerEvents answers with a page of events that list reads from the journal.
func (a *API) answerEvents(x *server.Exchange, order eventOrder,
	list func() (billing.EventPage, error),
) *server.Fault {
	if a.events == nil {
		return faultJournal
	}
	page, err := list()
	if err != nil {
		a.log.Error("events cannot be read", "error", err, "request_id", string(x.RequestID()))
		return faultJournal
	}
	return x.Object(200, func(data *server.JSON) {
		data.Array("events")
		for i := range page.Events {
			writeEvent(data, eventOf(&page.Events[i]))
		}
		data.Close(']')
		data.TextIf("nextCursor", encodeCursor(page.Next, order))
		data.TextIf("newestCursor", encodeCursor(page.Newest, order))
	})
}

func eventQuery(x *server.Exchange, f *form.Reader) (q billing.EventQuery) {
	q = billing.EventQuery{From: math.MinInt64, To: math.MaxInt64, Limit: defaultEvents}
	f.QueryInstant("from", query(x.Ctx, "from"), &q.From)
	f.QueryInstant("to", query(x.Ctx, "to"), &q.To)
	queryLimit(x, f, maxEvents, &q.Limit)
	if text := query(x.Ctx, "kind"); text != "" {
		names := billing.EventUsage.Names()
		kind := slices.Index(names, text)
		if kind < 0 {
			f.Problem("kind", form.NotAllowed(names[1:]...))
		}
		q.Kinds = []billing.EventKind{billing.EventKind(max(kind, 0))}
	}
	q.Feature = query(x.Ctx, "feature")
	if wrong, ok := form.CheckText([]byte(q.Feature), 0, maxID); !ok {
		f.Problem("feature", wrong)
	}
	queryFlag(x, f, "denied", &q.Denied)
	queryFlag(x, f, "unbilled", &q.Unbilled)
	return q
}

// eventOrder is the order of a listing of events. Cursors name it, so numbers do not change.
type eventOrder uint8

const (
	byTime           eventOrder = 0
	byTimeDescending eventOrder = 1
	// byLog lists what was recorded last first.
	byLog eventOrder = 2
)

// eventCursor reads the parameter that says where a listing in an order goes on, or ends.
func eventCursor(
	x *server.Exchange, f *form.Reader, name string, order eventOrder,
) journal.Cursor {
	text := query(x.Ctx, name)
	if text == "" {
		return journal.Cursor{}
	}
	cursor, of, ok := decodeCursor(text)
	switch {
	case !ok:
		f.Problem(name, form.NotCursor)
	case of != order:
		f.Problem(name, otherOrder)
	}
	return cursor
}

// queryFlag reads a parameter that is true or absent.
func queryFlag(x *server.Exchange, f *form.Reader, name string, dst *bool) {
	text := query(x.Ctx, name)
	if *dst = text == "true"; text != "" && !*dst {
		f.Problem(name, form.NotAllowed("true"))
	}
}

// queryLimit reads the size of a page.
func queryLimit(x *server.Exchange, f *form.Reader, maximum int, dst *int) {
	text := query(x.Ctx, "limit")
	if text == "" {
		return
	}
	n, ok := server.WholeNumber(text, 1, uint64(maximum))
	if !ok {
		f.Problem("limit", form.Outside(1, uint64(maximum)))
		return
	}
	*dst = int(n)
}

// eventAnswer is a usage event or a check of a customer, as the journal keeps it.
//
//schema:answer client Event
type eventAnswer struct {
	ID string `json:"id" rule:"min=1"`
	billing.EventView
	IsAllowed *bool  `json:"isAllowed,omitzero"` // of a check
	Why       string `json:"reason,omitzero" rule:"min=1"`
}

func eventOf(e *billing.EventView) *eventAnswer {
	v := eventAnswer{ID: eventID(e), EventView: *e, Why: e.ReasonText}
	if e.Kind == billing.EventAudit {
		v.IsAllowed, v.Why = new(e.Reason == billing.ReasonAllowed), textOf(e.Reason).code
	}
	return &v
}

// eventID is the event's place in the log: index, position and, within an audit block, ordinal.
func eventID(e *billing.EventView) string {
	id := strconv.AppendUint(nil, e.Index, 10)
	id = strconv.AppendUint(append(id, '-'), uint64(e.Position), 10)
	if e.Kind == billing.EventAudit {
		id = strconv.AppendUint(append(id, '-'), uint64(e.Ordinal), 10)
	}
	return string(id)
}

// otherOrder is what is wrong with a cursor of a listing in the other order.
var otherOrder = form.Mistake{
	Code: server.FieldConflict, Text: "is of a listing in the other order",
}

// cursorSize is that of a cursor of a listing by time; others have a byte more, their order.
const cursorSize = 8 + 8 + 4 + 4

// encodeCursor writes where a page goes on; empty where nothing follows.
func encodeCursor(c journal.Cursor, order eventOrder) string {
	if c.Index == 0 {
		return ""
	}
	b := binary.BigEndian.AppendUint64(nil, uint64(c.At))
	b = binary.BigEndian.AppendUint64(b, c.Index)
	b = binary.BigEndian.AppendUint32(b, c.Position)
	b = binary.BigEndian.AppendUint32(b, c.Ordinal)
	if order != byTime {
		b = append(b, byte(order))
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func decodeCursor(text string) (c journal.Cursor, order eventOrder, ok bool) {
	b, ok := server.Cursor(text)
	if len(b) == cursorSize+1 {
		order, b = eventOrder(b[cursorSize]), b[:cursorSize]
		ok = ok && (order == byTimeDescending || order == byLog)
	}
	if !ok || len(b) != cursorSize {
		return c, order, false
	}
	c.At = int64(binary.BigEndian.Uint64(b))
	c.Index = binary.BigEndian.Uint64(b[8:])
	c.Position = binary.BigEndian.Uint32(b[16:])
	c.Ordinal = binary.BigEndian.Uint32(b[20:])
	return c, order, c.Index != 0
}
