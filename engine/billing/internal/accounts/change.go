package accounts

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/journal"
	"tollgate/engine/wire"
)

// maxChange bounds the bytes of one recorded value.
const maxChange = 1024

// FieldChange is one value before and after. It never has secrets or personal data.
type FieldChange struct {
	Name   string `wire:"1"`
	Before string `wire:"2"`
	After  string `wire:"3"`
}

// Change is the record of one admin change.
type Change struct {
	Env     uint32        `wire:"1"` // 0: no environment
	At      int64         `wire:"2"` // log time
	Actor   string        `wire:"3"`
	Action  string        `wire:"4"`
	Subject string        `wire:"5"`
	Values  []FieldChange `wire:"6"`
}

// ChangeRecords is the payload of a journal.KindChange record: the admin changes of an entry.
type ChangeRecords struct {
	First   uint64   `wire:"1"` // the number of the first one; they count from 1, in log order
	Changes []Change `wire:"2"`
}

// ChangesPerMark is the number of changes from one mark to the next.
const ChangesPerMark = 64

// changeMark is the place in the journal of change number 1, 65, 129 …, by the mark's row.
//
//schema:row
type changeMark struct {
	at      int64 // log time
	index   uint64
	ordinal uint32
}

// NoteChange notes what an actor did to a subject of an environment; see Note.
func (t *Tx) NoteChange(env uint32, actor, action, subject string, values ...FieldChange) {
	t.Note(Change{Env: env, Actor: actor, Action: action, Subject: subject, Values: values})
}

// Given returns the change of a field that had no value before.
func Given(name, value string) FieldChange { return FieldChange{Name: name, After: value} }

// about begins a value that is recorded where another one changed.
const about = "\x01"

// About returns a field that says what a change is about; see FieldChange.About.
func About(name, value string) FieldChange { return Given(name, about+value) }

// About returns the value of a field that says what a change is about.
func (f FieldChange) About() (value string, ok bool) { return strings.CutPrefix(f.After, about) }

// Changed returns the change of a field's value.
func Changed(name, before, after string) FieldChange { return FieldChange{name, before, after} }

// Note records an admin change at the turn's stamp in the journal, forever. It omits values that
// did not change.
func (t *Tx) Note(c Change) {
	c.At = t.Stamp
	kept := c.Values[:0]
	for _, f := range c.Values {
		if f.Before != f.After {
			f.Before, f.After = shortened(f.Before), shortened(f.After)
			kept = append(kept, f)
		}
	}
	c.Values = kept
	r := &t.Entry.Changes
	if len(r.Changes) == 0 {
		r.First = t.S.Changes + 1
	}
	if t.S.Changes%ChangesPerMark == 0 {
		t.S.changesMu.Lock()
		_, m := t.S.ChangeMarks.Append()
		*m = changeMark{at: t.Stamp, index: t.Index, ordinal: uint32(len(r.Changes))}
		t.S.changesMu.Unlock()
	}
	t.S.Changes++
	r.Changes = append(r.Changes, c)
	t.Fold(t.S.Changes)
}

// shortened cuts a long value at a character and counts the rest.
func shortened(text string) string {
	if len(text) <= maxChange {
		return text
	}
	end := maxChange
	for end > 0 && text[end]&0xc0 == 0x80 {
		end--
	}
	return text[:end] + "… and " + strconv.Itoa(len(text)-end) + " more bytes"
}

// ChangeView is one admin change.
type ChangeView struct {
	Number          uint64 // from 1, in log order
	At              int64  // log time
	Account         string // empty if the change belongs to none
	Environment     EnvironmentKind
	Actor           string
	Action, Subject string
	Values          []FieldChange

	Size int // bytes of its values
}

// ErrChanges means that the journal lacks admin changes that the state counts.
var ErrChanges = errors.New("billing: admin changes are missing from the journal")

// MaxChangeBytes bounds a page of changes, roughly.
const MaxChangeBytes = 4 << 20

// ChangesTo reads the changes from the previous mark up to this one, oldest first.
func (s *Directory) ChangesTo(src journal.Source, last uint64) (views []ChangeView, err error) {
	row := uint32((last-1)/ChangesPerMark) + 1
	first := uint64(row-1)*ChangesPerMark + 1
	s.changesMu.RLock()
	mark := *s.ChangeMarks.Read(row)
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
	var block ChangeRecords
	read := uint64(0) // the block's entry
	for _, item := range items {
		if item.Index != read {
			block, read = ChangeRecords{}, item.Index
			if err := wire.Decode(item.Payload, &block); err != nil {
				return nil, fmt.Errorf("%w: %d.%d: %w", rows.ErrEvent, item.Index, item.Position, err)
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

func (s *Directory) changeView(number uint64, r *Change) ChangeView {
	v := ChangeView{
		Number: number, At: r.At, Actor: r.Actor, Action: r.Action, Subject: r.Subject,
		Values: r.Values,
	}
	for i := range r.Values {
		v.Size += len(r.Values[i].Name) + len(r.Values[i].Before) + len(r.Values[i].After)
	}
	if e := s.Environment(r.Env); e != nil {
		v.Account, v.Environment = e.Account.Name, e.Kind
	}
	return v
}
