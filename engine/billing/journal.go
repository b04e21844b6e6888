package billing

import (
	"strconv"

	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/decimal"
	"tollgate/engine/journal"
	"tollgate/engine/rollup"
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

// limitNames are the settings in the record of admin changes, in the order of limitValues. The
// first alwaysRecorded are there even where they stay.
var limitNames = [...]string{
	"keyRetentionMs", "windowMs", "auditRetentionMs", "maxKeys", "maxKeysInMemory",
	"customersPerAccount", "keysPerAccount", "catalogPerAccount", "webhooksPerAccount",
	"reservationsPerCustomer", "reservationsPerEnvironment", "reservationMs",
	"reservationsKept",
}

const alwaysRecorded = 4

func limitValues(l *accounts.Limits) [len(limitNames)]uint64 {
	b := l.Bounds()
	customer, environment := l.Holds()
	return [...]uint64{
		uint64(l.KeyRetentionMS), uint64(l.WindowMS), uint64(l.AuditRetentionMS), l.MaxKeys,
		l.MemoryKeys(), b.Customers, b.Keys, b.Catalog, b.Endpoints, customer, environment,
		uint64(l.MaxHold()), l.Reservations(),
	}
}

// recordLimits records a change of the settings that a node's configuration requested.
func (t *turn) recordLimits(before, after *accounts.Limits) {
	if *before == *after {
		return
	}
	c := accounts.Change{Actor: "configuration", Action: "limits.set"}
	was, is := limitValues(before), limitValues(after)
	for i, name := range limitNames {
		if i < alwaysRecorded || was[i] != is[i] {
			c.Values = append(c.Values, accounts.FieldChange{
				Name: name, Before: strconv.FormatUint(was[i], 10), After: strconv.FormatUint(is[i], 10),
			})
		}
	}
	t.Note(c)
}

// ChangeQuery asks for admin changes, newest first.
type ChangeQuery struct {
	// Before is the number below which they begin; 0: at the newest.
	Before uint64
	// Limit bounds how many are listed, Scan how many are looked at.
	Limit, Scan int
	// Like selects changes; nil selects all.
	Like func(*accounts.ChangeView) bool
}

// Changes lists the changes that q selects, and stops after some megabytes. next is Before of the
// next page; 0 ends the list.
func (m *journalReader) Changes(
	src journal.Source, q ChangeQuery,
) (views []accounts.ChangeView, next uint64, err error) {
	s := m.state.Load()
	views = []accounts.ChangeView{}
	last := s.ChangesShown.Load()
	if q.Before != 0 && q.Before <= last {
		last = q.Before - 1
	}
	size := 0
	for last > 0 {
		some, err := s.ChangesTo(src, last)
		if err != nil {
			return nil, 0, err
		}
		for i := len(some) - 1; i >= 0; i-- {
			if q.Scan == 0 || len(views) == q.Limit || size >= accounts.MaxChangeBytes {
				return views, some[i].Number + 1, nil
			}
			q.Scan--
			if q.Like == nil || q.Like(&some[i]) {
				views = append(views, some[i])
				size += some[i].Size
			}
		}
		last = some[0].Number - 1
	}
	return views, 0, nil
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

// CountVersions names what CountRecord counts. Raise that of a part when it changes: nodes then
// count this part of their journals again.
var CountVersions = rollup.Versions{journal.PartUsage: 1, journal.PartAudit: 2}

// CountRecord is the rollup.Counter of the billing journal: usage by feature, for its customer and
// its environment, and checks by reason, for their environment and, where they are denied, for
// their customer. Items are reasons, or numbers of features with 0 for unmatched names.
func CountRecord(r journal.Record, add func(rollup.Cell)) {
	switch r.Kind {
	case journal.KindUsage:
		feature, env, units, ok := quickCounted(r.Payload)
		if !ok {
			if feature, env, units, ok = decodeCounted(r.Payload); !ok {
				return
			}
		}
		countUsage(r, feature, env, rollup.Cell{Events: 1, Units: units}, add)
	case journal.KindVoid, journal.KindAmend:
		countCorrection(r, add)
	case journal.KindAudit:
		countChecks(r, add)
	}
}

func countCorrection(r journal.Record, add func(rollup.Cell)) {
	var k correctionEntry
	var c RecordUsage
	if wire.Decode(r.Payload, &k) != nil || wire.Decode(k.Original.Record, &c) != nil {
		return
	}
	cell := rollup.Cell{Units: k.Delta}
	if r.Kind == journal.KindVoid {
		cell.Events = -1
	}
	countUsage(r, k.Original.Feature, c.Env, cell, add)
}

func countChecks(r journal.Record, add func(rollup.Cell)) {
	block, err := openAudits(r.Payload)
	if err != nil {
		return // Apply refuses what does not decode, and records of another version are not ours
	}
	for block.next() {
		c := &block.check
		cell := rollup.Cell{Key: rollup.Key{
			Owner: rollup.Environment(c.Env), Item: uint32(c.Reason), Hour: rollup.HourOf(c.At),
		}, Events: 1}
		add(cell)
		if cell.Owner = uint64(c.CustomerRow); c.Reason != ReasonAllowed && cell.Owner != 0 {
			add(cell)
		}
	}
}

// quickCounted finds the counted fields of a usage event of the usual form, and passes over the
// others: what they hold was checked when they were recorded.
func quickCounted(payload []byte) (feature, env uint32, units decimal.Decimal, ok bool) {
	const featureTag, recordTag, envTag, unitsTag = 2 << 3, 8<<3 | 2, 1 << 3, 11<<3 | 2
	q := wire.Quick(payload)
	at := q.Seek(0, featureTag)
	if q.Is(at, featureTag) {
		feature, at = quickUint32(q, at+1)
	}
	if at = q.Seek(at, recordTag); !q.Is(at, recordTag) {
		return 0, 0, units, false
	}
	q, _ = q.Blob(at + 1)
	at = 0
	if q.Is(at, envTag) {
		env, at = quickUint32(q, at+1)
	}
	if at = q.Seek(at, unitsTag); q.Is(at, unitsTag) {
		units, at = q.Decimal(at + 1)
	}
	return feature, env, units, len(q) > 0 && at <= len(q)
}

func quickUint32(q wire.Quick, at int) (v uint32, next int) {
	n, next := q.Uint(at, 1<<32-1)
	return uint32(n), next
}

// decodeCounted decodes a usage event of any form for quickCounted.
func decodeCounted(payload []byte) (feature, env uint32, units decimal.Decimal, ok bool) {
	var u usageEntry
	w := wire.NewDecoder(payload)
	u.head(&w)
	if len(u.Record) == 0 {
		return 0, 0, units, false
	}
	var c RecordUsage
	w = wire.NewDecoder(u.Record)
	c.Fields(&w)
	return u.Feature, c.Env, c.Units, w.Close() == nil
}

func countUsage(
	r journal.Record, feature, env uint32, c rollup.Cell, add func(rollup.Cell),
) {
	c.Key = rollup.Key{Owner: uint64(r.Owner), Item: feature, Hour: rollup.HourOf(r.At)}
	add(c)
	c.Owner = rollup.Environment(env)
	add(c)
}

// OccurredAt is when the event occurred; 0 if its record cannot be read.
func (r *UsageRef) OccurredAt() int64 {
	var u usageEntry
	var c RecordUsage
	if wire.Decode(r.Payload, &u) != nil || wire.Decode(u.Record, &c) != nil {
		return 0
	}
	return c.OccurredAt
}
