package billing

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"

	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/journal"
	"tollgate/engine/page"
	"tollgate/engine/wire"
)

// longestChange bounds what a change keeps of one value, in bytes.
const longestChange = 1024

// FieldChange says what one value was and what it became. Secrets and personal data never are.
type FieldChange struct {
	Name   string `wire:"1"`
	Before string `wire:"2"`
	After  string `wire:"3"`
}

// change is the record of one admin change.
type change struct {
	Env     uint32        `wire:"1"` // 0: of no environment
	At      int64         `wire:"2"` // log time
	Actor   string        `wire:"3"`
	Action  string        `wire:"4"`
	Subject string        `wire:"5"`
	Values  []FieldChange `wire:"6"`
}

// changeRecords is the payload of a journal.KindChange record: the admin changes of an entry.
type changeRecords struct {
	First   uint64   `wire:"1"` // the number of the first one; they are counted from 1, in log order
	Changes []change `wire:"2"`
}

// changesPerMark is how many changes there are between two that can be found at once.
const changesPerMark = 64

// changeMark is where in the journal a change stands: number 1, 65, 129 …, by the mark's row.
type changeMark struct {
	at      int64 // log time
	index   uint64
	ordinal uint32
}

var changeMarkCodec = page.Codec[changeMark]{
	Append: func(dst []byte, m *changeMark) []byte {
		return rows.AppendU32(rows.AppendI64(rows.AppendI64(dst, m.at), int64(m.index)), m.ordinal)
	},
	Read: func(src []byte, m *changeMark) ([]byte, error) {
		r := rows.Reader{Rest: src}
		m.at, m.index, m.ordinal = r.I64(), r.U64(), r.U32()
		return r.Rest, r.Err
	},
}

// note remembers an admin change at the turn's stamp, forever: in the journal. What did not change
// is left out.
func (t *tx) note(c change) {
	c.At = t.Stamp
	kept := c.Values[:0]
	for _, f := range c.Values {
		if f.Before != f.After {
			f.Before, f.After = shortened(f.Before), shortened(f.After)
			kept = append(kept, f)
		}
	}
	c.Values = kept
	r := &t.entry.changes
	if len(r.Changes) == 0 {
		r.First = t.s.changes + 1
	}
	if t.s.changes%changesPerMark == 0 {
		t.s.changesMu.Lock()
		_, m := t.s.changeMarks.Append()
		*m = changeMark{at: t.Stamp, index: t.Index, ordinal: uint32(len(r.Changes))}
		t.s.changesMu.Unlock()
	}
	t.s.changes++
	r.Changes = append(r.Changes, c)
	t.Fold(t.s.changes)
}

// journalChanges appends an entry's changes, as one record behind the others.
func (m *Machine) journalChanges(t *turn, position uint32) {
	r := &m.scratch.entry.changes
	if len(r.Changes) == 0 {
		return
	}
	m.scratch.payload = wire.Encode(m.scratch.payload[:0], r)
	m.journal.Append(journal.Record{
		Kind: journal.KindChange, Index: t.Index, Position: position, At: t.Stamp,
		Payload: m.scratch.payload,
	})
	clear(r.Changes)
	r.Changes = r.Changes[:0]
}

// shortened cuts a long value at a character, and says by how much.
func shortened(text string) string {
	if len(text) <= longestChange {
		return text
	}
	end := longestChange
	for end > 0 && text[end]&0xc0 == 0x80 {
		end--
	}
	return text[:end] + "… and " + strconv.Itoa(len(text)-end) + " more bytes"
}

// recordLimits remembers a change of the settings; the node's configuration asked for it.
func (t *turn) recordLimits(before, after *Limits) {
	if *before == *after {
		return
	}
	var values []FieldChange
	if was, is := before.memoryKeys(), after.memoryKeys(); was != is {
		values = []FieldChange{{
			"maxKeysInMemory", strconv.FormatUint(was, 10), strconv.FormatUint(is, 10),
		}}
	}
	was, is := before.Bounds(), after.Bounds()
	for _, v := range [...]struct {
		name    string
		was, is uint64
	}{
		{"customersPerAccount", was.Customers, is.Customers},
		{"keysPerAccount", was.Keys, is.Keys},
		{"catalogPerAccount", was.Catalog, is.Catalog},
		{"webhooksPerAccount", was.Endpoints, is.Endpoints},
	} {
		if v.was != v.is {
			values = append(values, FieldChange{
				v.name, strconv.FormatUint(v.was, 10), strconv.FormatUint(v.is, 10),
			})
		}
	}
	number := func(v int64) string { return strconv.FormatInt(v, 10) }
	t.note(change{Actor: "configuration", Action: "limits.set", Values: append([]FieldChange{
		{"keyRetentionMs", number(before.KeyRetentionMS), number(after.KeyRetentionMS)},
		{"windowMs", number(before.WindowMS), number(after.WindowMS)},
		{
			"auditRetentionMs",
			number(before.AuditRetentionMS), number(after.AuditRetentionMS),
		},
		{"maxKeys", strconv.FormatUint(before.MaxKeys, 10), strconv.FormatUint(after.MaxKeys, 10)},
	}, values...)})
}

// ChangeView is one admin change.
type ChangeView struct {
	Number          uint64 // from 1, in log order
	At              int64  // log time
	Account         string // empty when the change belongs to none
	Environment     EnvironmentKind
	Actor           string
	Action, Subject string
	Values          []FieldChange

	size int // bytes of its values
}

// ErrChanges means that the journal does not have the admin changes that the state counts.
var ErrChanges = errors.New("billing: admin changes are missing from the journal")

// maxChangeBytes is about how much a page of changes may hold.
const maxChangeBytes = 4 << 20

// Changes lists admin changes, newest first, with numbers below before (0: all): at most limit, and
// no more once they are some megabytes. The last one of a page has number 1, or more follow.
func (m *Machine) Changes(src journal.Source, before uint64, limit int) ([]ChangeView, error) {
	s := m.state.Load()
	views := []ChangeView{}
	last := s.changesShown.Load()
	if before != 0 && before <= last {
		last = before - 1
	}
	for size := 0; last > 0 && len(views) < limit && size < maxChangeBytes; {
		some, err := s.changesTo(src, last)
		if err != nil {
			return nil, err
		}
		for i := len(some) - 1; i >= 0 && len(views) < limit && size < maxChangeBytes; i-- {
			views = append(views, some[i])
			size += some[i].size
		}
		last = some[0].Number - 1
	}
	return views, nil
}

// changesTo reads the changes from the mark before one up to it, oldest first.
func (s *directory) changesTo(src journal.Source, last uint64) (views []ChangeView, err error) {
	row := uint32((last-1)/changesPerMark) + 1
	first := uint64(row-1)*changesPerMark + 1
	s.changesMu.RLock()
	mark := *s.changeMarks.Read(row)
	s.changesMu.RUnlock()
	wanted := int(last-first) + 1
	items, err := src.List(journal.Query{
		Kinds: journal.Kinds(journal.KindChange), From: mark.at, To: math.MaxInt64,
		After: journal.Cursor{
			At: mark.at, Index: mark.index - 1, Position: math.MaxUint32, Ordinal: math.MaxUint32,
		},
		HasAfter: true, Limit: int(mark.ordinal) + wanted,
	})
	if err != nil {
		return nil, fmt.Errorf("billing: list admin changes from %d on: %w", first, err)
	}
	var block changeRecords
	read := uint64(0) // the entry that block is of
	for _, item := range items {
		if item.Index != read {
			block, read = changeRecords{}, item.Index
			if err := wire.Decode(item.Payload, &block); err != nil {
				return nil, fmt.Errorf("%w: %d.%d: %w", ErrEvent, item.Index, item.Position, err)
			}
		}
		number := block.First + uint64(item.Ordinal)
		if first <= number && number <= last && int(item.Ordinal) < len(block.Changes) {
			views = append(views, s.changeView(number, &block.Changes[item.Ordinal]))
		}
	}
	if len(views) != wanted {
		return nil, fmt.Errorf("%w: of %d to %d there are %d", ErrChanges, first, last, len(views))
	}
	return views, nil
}

func (s *directory) changeView(number uint64, r *change) ChangeView {
	v := ChangeView{
		Number: number, At: r.At, Actor: r.Actor, Action: r.Action, Subject: r.Subject,
		Values: r.Values,
	}
	for i := range r.Values {
		v.size += len(r.Values[i].Name) + len(r.Values[i].Before) + len(r.Values[i].After)
	}
	if e := s.environment(r.Env); e != nil {
		v.Account, v.Environment = e.account.name, e.kind
	}
	return v
}

// uuidText is the text form of a UUID.
func uuidText(id [16]byte) string {
	h := hex.EncodeToString(id[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}
