package billing

import (
	"encoding/hex"
	"strconv"

	"tollgate/engine/wire"
)

// MaxChanges is how many admin changes one group remembers; later ones are carried out and not
// remembered. At a change a minute that is two years.
const MaxChanges = 1_000_000

// longestChange bounds what a change keeps of one value, in bytes.
const longestChange = 1024

// FieldChange says what one value was and what it became. Secrets and personal data never are.
type FieldChange struct{ Name, Before, After string }

// Fields states the change's fields.
func (f *FieldChange) Fields(w *wire.Codec) {
	w.String(1, &f.Name)
	w.String(2, &f.Before)
	w.String(3, &f.After)
}

// change is the record of one admin change.
type change struct {
	Env             uint32 // 0: of no environment
	At              int64  // log time
	Actor           string
	Action, Subject string
	Values          []FieldChange
}

// changeRecord states a change's bytes.
type changeRecord change

// Fields states the record's fields.
func (r *changeRecord) Fields(w *wire.Codec) {
	wire.Uint(w, 1, &r.Env)
	w.Int(2, &r.At)
	w.String(3, &r.Actor)
	w.String(4, &r.Action)
	w.String(5, &r.Subject)
	wire.List(w, 6, &r.Values)
}

// note remembers an admin change at the turn's stamp. What did not change is left out.
func (t *turn) note(c change) {
	if t.changes.Len() >= MaxChanges {
		return
	}
	c.At = t.stamp
	kept := c.Values[:0]
	for _, f := range c.Values {
		if f.Before != f.After {
			f.Before, f.After = shortened(f.Before), shortened(f.After)
			kept = append(kept, f)
		}
	}
	c.Values = kept
	data := string(wire.Encode(nil, (*changeRecord)(&c)))
	t.changesMu.Lock()
	row, r := t.changes.Append()
	r.data = data
	t.changesMu.Unlock()
	t.fold(uint64(row))
}

// shortened cuts a long value at a character, and says so.
func shortened(text string) string {
	if len(text) <= longestChange {
		return text
	}
	end := longestChange
	for end > 0 && text[end]&0xc0 == 0x80 {
		end--
	}
	return text[:end] + "…"
}

// recordLimits remembers a change of the settings; the node's configuration asked for it.
func (t *turn) recordLimits(before, after *Limits) {
	if *before == *after {
		return
	}
	number := func(v int64) string { return strconv.FormatInt(v, 10) }
	t.note(change{Actor: "configuration", Action: "limits.set", Values: []FieldChange{
		{"keyRetentionMs", number(before.KeyRetentionMS), number(after.KeyRetentionMS)},
		{"windowMs", number(before.WindowMS), number(after.WindowMS)},
		{
			"auditRetentionMs",
			number(before.AuditRetentionMS), number(after.AuditRetentionMS),
		},
		{"maxKeys", strconv.FormatUint(before.MaxKeys, 10), strconv.FormatUint(after.MaxKeys, 10)},
	}})
}

// ChangeView is one admin change.
type ChangeView struct {
	Number          uint32 // from 1, in log order
	At              int64  // log time
	Account         string // empty when the change belongs to none
	Environment     EnvironmentKind
	Actor           string
	Action, Subject string
	Values          []FieldChange
}

// Changes lists admin changes, newest first: at most limit, with numbers below before (0: all).
func (m *Machine) Changes(before uint32, limit int) []ChangeView {
	s := m.state.Load()
	views := []ChangeView{}
	s.changesMu.RLock()
	defer s.changesMu.RUnlock()
	row := s.changes.Len()
	if before != 0 && before <= row {
		row = before - 1
	}
	for ; row > 0 && len(views) < limit; row-- {
		var r changeRecord
		if err := wire.Decode([]byte(s.changes.Read(row).data), &r); err != nil {
			panic("billing: change in memory does not decode: " + err.Error())
		}
		v := ChangeView{
			Number: row, At: r.At, Actor: r.Actor, Action: r.Action, Subject: r.Subject,
			Values: r.Values,
		}
		if e := s.environment(r.Env); e != nil {
			v.Account, v.Environment = e.account.name, e.kind
		}
		views = append(views, v)
	}
	return views
}

// uuidText is the text form of a UUID.
func uuidText(id [16]byte) string {
	h := hex.EncodeToString(id[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}
