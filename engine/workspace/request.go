package workspace

import (
	"tollgate/engine"
	"tollgate/engine/machine"
	"tollgate/engine/page"
)

// RequestRetentionMS is how long an Idempotency-Key is kept, in log time: 30 days.
const RequestRetentionMS = 30 * dayMS

const (
	// MaxRequests is how many Idempotency-Keys one group keeps at most: beyond it new ones are
	// refused until older ones have expired.
	MaxRequests = 6_000_000
	// spareRequests are those of MaxRequests that only purchases use which their owners have paid.
	spareRequests = 10_000
)

// request is a request that was carried out, and what its answer is given again from.
type request struct {
	Key  [16]byte `wire:"1"`
	Body [16]byte `wire:"2"`
	Made [16]byte `wire:"3"`
	At   int64    `wire:"4"`
}

// requestRow is what is in memory of a request: there are as many as runs in 30 days. What it made
// is a row of the table that kind says; its instant has 48 bits, enough until the year 10,889.
type requestRow struct {
	Key, Body [16]byte
	made      uint32
	atLow     uint32
	atHigh    uint16
	kind      madeKind
}

// madeKind says what a request made.
type madeKind uint8

const (
	madeRun      madeKind = 1
	madePurchase madeKind = 2
	madeAct      madeKind = 3
)

func (r *requestRow) at() int64 { return int64(r.atHigh)<<32 | int64(r.atLow) }

func (r *requestRow) set(at int64) { r.atHigh, r.atLow = uint16(at>>32), uint32(at) }

// openRequests makes the table of requests, after those of what they make.
func (x *tables) openRequests() {
	record := machine.RecordCodec[request]()
	x.requests = machine.Ring[requestRow]{
		Max: MaxRequests, Spare: spareRequests, By: page.NewIndex(), Hash: x.idHash,
		Key: func(r *requestRow) [16]byte { return r.Key }, At: (*requestRow).at,
	}
	x.requests.Table = page.NewTable(x.store, tableRequests, page.Codec[requestRow]{
		Append: func(dst []byte, r *requestRow) []byte {
			return record.Append(dst, &request{
				Key: r.Key, Body: r.Body, Made: x.madeID(r), At: r.at(),
			})
		},
		ReadRow: func(row uint32, src []byte, to *requestRow) ([]byte, error) {
			var r request
			rest, err := record.Read(src, &r)
			to.Key, to.Body = r.Key, r.Body
			to.set(r.At)
			if to.made = x.runs.restored(&r.Made); to.made != 0 {
				to.kind = madeRun
			} else {
				x.unresolved = append(x.unresolved, unresolved{row, r.Made})
			}
			return rest, err
		},
	})
}

// madeID is the id of what a request made, which never changes. It takes no lock.
func (x *tables) madeID(r *requestRow) [16]byte {
	switch r.kind {
	case madeRun:
		return x.runs.Row(r.made).ID
	case madePurchase:
		return x.purchases.Read(r.made).ID
	}
	return x.actRows.Read(r.made).ID
}

// unresolved is a request that was restored before what it made.
type unresolved struct {
	row  uint32
	made [16]byte
}

// resolve finds what requests made that were restored before it, of removed workspaces, too, whose
// records no index has; false reports whether one made nothing.
func (x *tables) resolve() bool {
	var rest map[[16]byte]requestRow // purchases and acts: few have a key
	for _, u := range x.unresolved {
		r := x.requests.Table.Write(u.row)
		if r.made, r.kind = x.runs.Find(&u.made), madeRun; r.made != 0 {
			continue
		}
		if rest == nil {
			rest = x.madeByOthers()
		}
		other, ok := rest[u.made]
		if !ok {
			return false
		}
		r.made, r.kind = other.made, other.kind
	}
	x.unresolved = nil
	return true
}

// madeByOthers are all purchases and acts, by id.
func (x *tables) madeByOthers() map[[16]byte]requestRow {
	all := make(map[[16]byte]requestRow, x.purchases.Len()+x.actRows.Len())
	for row := uint32(1); row <= x.actRows.Len(); row++ {
		all[x.actRows.Read(row).ID] = requestRow{kind: madeAct, made: row}
	}
	for row := uint32(1); row <= x.purchases.Len(); row++ {
		all[x.purchases.Read(row).ID] = requestRow{kind: madePurchase, made: row}
	}
	return all
}

// replay says what a request's key was used for: OutcomeNone for nothing yet, Done with the record
// that was made, or OutcomeRequestKeyReused. The zero key is none; nor is one used up by an
// inspection whose document was never whole.
func (x *tables) replay(key, body [16]byte) (made [16]byte, o engine.Outcome) {
	if key == ([16]byte{}) {
		return made, engine.OutcomeNone
	}
	row := x.requests.Find(key, x.log.Stamp()-RequestRetentionMS)
	if row == 0 {
		return made, engine.OutcomeNone
	}
	r := x.requests.Table.Read(row)
	if r.kind == madeRun && x.neverWhole(r.made) {
		return made, engine.OutcomeNone
	}
	if r.Body != body {
		return made, engine.OutcomeRequestKeyReused
	}
	return x.madeID(r), engine.OutcomeDone
}

// keepRequest keeps the key of a request that made a row.
func (x *tables) keepRequest(t *machine.Turn, key, body [16]byte, kind madeKind, made uint32) {
	if key != ([16]byte{}) && x.requests.To-x.requests.From < x.requests.Max {
		r := requestRow{Key: key, Body: body, kind: kind, made: made}
		r.set(t.Stamp)
		x.requests.Keep(r)
	}
}
