package billing

import (
	"strconv"

	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/journal"
	"tollgate/engine/wire"
)

// journalChanges appends an entry's changes as one record behind the others.
func (m *Machine) journalChanges(t *turn, position uint32) {
	r := &m.scratch.entry.Changes
	if len(r.Changes) == 0 {
		return
	}
	m.scratch.payload = wire.Encode(m.scratch.payload[:0], r)
	m.journal.Append(journal.Record{
		Kind: journal.KindChange, Index: t.Index, Position: t.Entry.Place(position), At: t.Stamp,
		Payload: m.scratch.payload,
	})
	clear(r.Changes)
	r.Changes = r.Changes[:0]
}

// recordLimits records a change of the settings that a node's configuration requested.
func (t *turn) recordLimits(before, after *accounts.Limits) {
	if *before == *after {
		return
	}
	var values []accounts.FieldChange
	if was, is := before.MemoryKeys(), after.MemoryKeys(); was != is {
		values = []accounts.FieldChange{{
			Name: "maxKeysInMemory", Before: strconv.FormatUint(was, 10), After: strconv.FormatUint(is, 10),
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
			values = append(values, accounts.FieldChange{
				Name: v.name, Before: strconv.FormatUint(v.was, 10), After: strconv.FormatUint(v.is, 10),
			})
		}
	}
	number := func(v int64) string { return strconv.FormatInt(v, 10) }
	ownWas, allWas := before.Holds()
	ownIs, allIs := after.Holds()
	for _, v := range [...]struct {
		name    string
		was, is uint64
	}{
		{"reservationsPerCustomer", ownWas, ownIs},
		{"reservationsPerEnvironment", allWas, allIs},
		{"reservationMs", uint64(before.LongestHold()), uint64(after.LongestHold())},
	} {
		if v.was != v.is {
			values = append(values, accounts.FieldChange{
				Name: v.name, Before: strconv.FormatUint(v.was, 10), After: strconv.FormatUint(v.is, 10),
			})
		}
	}
	t.Note(accounts.Change{
		Actor: "configuration", Action: "limits.set",
		Values: append([]accounts.FieldChange{
			{Name: "keyRetentionMs", Before: number(before.KeyRetentionMS), After: number(after.KeyRetentionMS)},
			{Name: "windowMs", Before: number(before.WindowMS), After: number(after.WindowMS)},
			{
				Name:   "auditRetentionMs",
				Before: number(before.AuditRetentionMS), After: number(after.AuditRetentionMS),
			},
			{Name: "maxKeys", Before: strconv.FormatUint(before.MaxKeys, 10), After: strconv.FormatUint(after.MaxKeys, 10)},
		}, values...),
	})
}

// Changes lists admin changes with numbers below before (0: all), newest first. It lists at most
// limit, and stops after some megabytes. If the last one of a page does not have number 1, more
// follow.
func (m *journalReader) Changes(
	src journal.Source, before uint64, limit int,
) ([]accounts.ChangeView, error) {
	s := m.state.Load()
	views := []accounts.ChangeView{}
	last := s.ChangesShown.Load()
	if before != 0 && before <= last {
		last = before - 1
	}
	for size := 0; last > 0 && len(views) < limit && size < accounts.MaxChangeBytes; {
		some, err := s.ChangesTo(src, last)
		if err != nil {
			return nil, err
		}
		for i := len(some) - 1; i >= 0 && len(views) < limit && size < accounts.MaxChangeBytes; i-- {
			views = append(views, some[i])
			size += some[i].Size
		}
		last = some[0].Number - 1
	}
	return views, nil
}

// journalFacts appends an entry's facts as one record behind those of its commands.
func (m *Machine) journalFacts(index uint64, position uint32) {
	r := &m.scratch.moves.Facts
	if len(r.Facts) == 0 {
		return
	}
	m.scratch.payload = wire.Encode(m.scratch.payload[:0], r)
	m.journal.Append(journal.Record{
		Kind: journal.KindBilling, Index: index, Position: m.scratch.entry.Place(position),
		At: r.Facts[0].At, Payload: m.scratch.payload,
	})
	clear(r.Facts)
	r.Facts, r.Size = r.Facts[:0], 0
}
