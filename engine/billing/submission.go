package billing

import (
	"fmt"

	"tollgate/engine"
	"tollgate/engine/page"
	"tollgate/engine/wire"
)

// Submit carries out another command once, however often the record reaches the log: a proposer
// whose answer was lost sends it again, and what others changed in between must stand. Commands
// that mint ids, carry keys or end in a final state recognise themselves; those of submitted say
// how something is to be, and cannot. A repetition is the same success again, without a reply.
type Submit struct {
	ID      [16]byte    `wire:"1"` // of the request, minted by whoever proposes it
	Kind    engine.Kind `wire:"2"`
	Payload []byte      `wire:"3"`

	inner command
}

// submitted are the commands that Submit carries, and how they decode.
var submitted = map[engine.Kind]func(m *Machine, payload []byte) (command, error){
	KindSetLimits:             decodeFields[SetLimits],
	KindApplyCatalog:          decodeFields[ApplyCatalog],
	KindUpdateCustomer:        decodeFields[UpdateCustomer],
	KindSetOrigins:            decodeFields[SetOrigins],
	KindSetPaymentTerms:       decodeFields[SetPaymentTerms],
	KindSetPaymentProvider:    decodeFields[SetPaymentProvider],
	KindCancelSubscription:    decodeFields[CancelSubscription],
	KindRevertCancellation:    decodeFields[RevertCancellation],
	KindCancelPlanChange:      decodeFields[CancelPlanChange],
	KindAdvanceClock:          decodeFields[AdvanceClock],
	KindNoteCheckout:          decodeFields[NoteCheckout],
	KindCreateWebhookEndpoint: decodeFields[CreateWebhookEndpoint],
	KindDeleteWebhookEndpoint: decodeFields[DeleteWebhookEndpoint],
	KindUpdateWebhookEndpoint: decodeFields[UpdateWebhookEndpoint],
	KindRotateWebhookSecret:   decodeFields[RotateWebhookSecret],
	KindResendWebhook:         decodeFields[ResendWebhook],
	KindFreezePool:            decodeFields[FreezePool],
	KindUnfreezePool:          decodeFields[UnfreezePool],
	KindAmendUsage:            decodeFields[AmendUsage],
}

// Repeatable makes the record of a command that is safe to send again, whatever happens in between:
// the command's own, or a Submit around it, which mint names.
func (m *Machine) Repeatable(kind engine.Kind, payload []byte, mint func() [16]byte) engine.Record {
	if submitted[kind] == nil {
		return engine.Record{Kind: kind, Payload: payload}
	}
	c := Submit{ID: mint(), Kind: kind, Payload: payload}
	return engine.Record{Kind: KindSubmit, Payload: wire.Encode(nil, &c)}
}

// decodeSubmit reads the command and the one that it carries.
func decodeSubmit(m *Machine, payload []byte) (command, error) {
	c := new(Submit)
	if err := wire.Decode(payload, c); err != nil {
		return nil, err
	}
	decode := submitted[c.Kind]
	if decode == nil {
		return nil, fmt.Errorf("a command of kind %d is not carried by Submit", c.Kind)
	}
	var err error
	c.inner, err = decode(m, c.Payload)
	return c, err
}

func (c *Submit) apply(t *turn) engine.Outcome {
	if t.submissions.known[c.ID] {
		return engine.OutcomeDone
	}
	if outcome := c.inner.apply(t); outcome != engine.OutcomeDone {
		return outcome
	}

	t.submissions.keep(c.ID)
	t.fold(t.submissions.count)
	return engine.OutcomeDone
}

// MaxSubmissions is how many one group remembers; a new one takes the place of the oldest. A
// proposer gives up after seconds, and by then no frame and no entry of its own can come any
// more.
const MaxSubmissions = 65_536

// submission is one that was carried out.
type submission struct{ id [16]byte }

var submissionCodec = page.Codec[submission]{
	Append: func(dst []byte, a *submission) []byte { return append(dst, a.id[:]...) },
	Read: func(src []byte, a *submission) ([]byte, error) {
		r := reader{rest: src}
		a.id = r.id()
		return r.rest, r.err
	},
}

// submissions are a ring: number n, counted from 0, is row 1 + n mod MaxSubmissions. Only Apply
// uses it.
type submissions struct {
	table *page.Table[submission]
	count uint64            // how many there have been
	known map[[16]byte]bool // no state
}

func (q *submissions) open(store *page.Store) {
	q.table = page.NewTable(store, tableSubmissions, submissionCodec)
	q.known = map[[16]byte]bool{}
}

func (q *submissions) keep(id [16]byte) {
	row := uint32(q.count%MaxSubmissions) + 1
	if row > q.table.Len() {
		_, r := q.table.Append()
		r.id = id
	} else {
		r := q.table.Write(row)
		delete(q.known, r.id)
		r.id = id
	}
	q.known[id] = true
	q.count++
}

// consistent says, after a restore, that the ring's numbers have rows.
func (q *submissions) consistent() bool {
	return min(q.count, MaxSubmissions) == uint64(q.table.Len())
}

// reindex rebuilds the index, after a restore.
func (q *submissions) reindex() {
	for row := uint32(1); row <= q.table.Len(); row++ {
		q.known[q.table.Read(row).id] = true
	}
}
