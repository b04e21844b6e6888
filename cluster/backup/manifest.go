// Package backup is the file format of a backup: the state of each Raft group at one log index and
// the journal segments that the state lists, as one stream that is checked to its last byte. It
// knows nothing of Raft. FORMAT.md has the bytes.
package backup

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tollgate/engine/journal"
)

// FormatVersion is the version of the format that this build writes, and the newest that it reads.
const FormatVersion = 1

var (
	// ErrDamaged means that bytes are not a whole backup: cut off, changed, in another order, or
	// followed by more. No part of such a file may be used.
	ErrDamaged = errors.New("backup: damaged")
	// ErrVersion means that a backup was written by a build that is newer than this one.
	ErrVersion = errors.New("backup: written by a newer version")
)

// Manifest begins a backup: where it comes from, and all that follows.
type Manifest struct {
	// MadeAt is when it was made, in milliseconds since 1970 UTC, by Node's clock.
	MadeAt int64 `json:"madeAt"`
	// Node is the node that made it, Program its build.
	Node    string `json:"node"`
	Program string `json:"program"`
	// Cluster is the identity of the cluster, "" of one that was never restored.
	Cluster string `json:"cluster,omitempty"`
	// Stale reports whether the other members were not asked whether the node had every acknowledged
	// write.
	Stale bool `json:"stale,omitempty"`
	// Apart reports whether the segments do not follow, and are files next to the backup: see
	// Segment.File.
	Apart bool `json:"apart,omitempty"`
	// Groups are the Raft groups, in the order in which they follow.
	Groups []Group `json:"groups"`
}

// Group is one Raft group at one log index: the point in time that the backup restores.
type Group struct {
	Shard uint16 `json:"shard"`
	Name  string `json:"name"`
	// Index and Term are the last log entry that the state contains, for Raft.
	Index uint64 `json:"index"`
	Term  uint64 `json:"term"`
	// Applied is the last entry that changed the state, Hash the state's hash there, Stamp the
	// newest stamp, in milliseconds since 1970 UTC.
	Applied uint64 `json:"applied"`
	Hash    uint64 `json:"hash,string"`
	Stamp   int64  `json:"stamp"`
	// StateBytes is the length of the state.
	StateBytes int64 `json:"stateBytes"`
	// Segments are the journal segments that follow the state, in this order.
	Segments []Segment `json:"segments,omitempty"`
}

// Segment names a journal segment and its bytes.
type Segment struct {
	Part   journal.Part `json:"part"`
	Number uint64       `json:"number"`
	Length uint64       `json:"length"`
	// Hash is xxHash64 of the bytes, as in the journal's own manifest.
	Hash uint64 `json:"hash,string"`
}

// SegmentOf is how a manifest names a journal segment.
func SegmentOf(info journal.SegmentInfo) Segment {
	return Segment{Part: info.Part, Number: info.Number, Length: info.Length, Hash: info.Hash}
}

// File is the name of the segment of a group as a file of its own. Segments of one name have the
// same bytes.
func (s Segment) File(shard uint16) string {
	return fmt.Sprintf("%s%d-%d-%010d-%d-%016x%s", segmentPrefix, shard, s.Part, s.Number, s.Length,
		s.Hash, segmentSuffix)
}

const segmentPrefix, segmentSuffix = "segment-", ".seg"

// IsSegment reports whether a file has a name as a segment's.
func IsSegment(file string) bool {
	return strings.HasPrefix(file, segmentPrefix) && strings.HasSuffix(file, segmentSuffix)
}

// String names the segment, as in "usage segment 7".
func (s Segment) String() string { return fmt.Sprintf("%s segment %d", s.Part, s.Number) }

// Lists reports whether the group's segments are those of a journal, each in its place.
func (g *Group) Lists(infos []journal.SegmentInfo) bool {
	return slices.EqualFunc(g.Segments, infos, func(s Segment, info journal.SegmentInfo) bool {
		return s == SegmentOf(info)
	})
}

// Bytes is how long states and segments are together.
func (m *Manifest) Bytes() int64 {
	total := int64(0)
	for i := range m.Groups {
		total += m.Groups[i].StateBytes
		for _, s := range m.Groups[i].Segments {
			total += int64(s.Length)
		}
	}
	return total
}

// Time is when the backup was made.
func (m *Manifest) Time() time.Time { return time.UnixMilli(m.MadeAt).UTC() }

// Bounds of a manifest: 64 groups, each with a state and segments of 1 TiB.
const (
	maxGroups  = 64
	maxPart    = 1 << 40
	maxSegment = 1 << 30
)

// parseManifest reads a manifest and checks that what it announces is possible.
func parseManifest(text []byte) (*Manifest, error) {
	m := &Manifest{}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("%w: manifest: %w", ErrDamaged, err)
	}
	if len(m.Groups) == 0 || len(m.Groups) > maxGroups {
		return nil, fmt.Errorf("%w: manifest of %d groups", ErrDamaged, len(m.Groups))
	}
	for i := range m.Groups {
		g := &m.Groups[i]
		if i > 0 && g.Shard <= m.Groups[i-1].Shard || g.Index == 0 || g.Term == 0 ||
			g.Applied > g.Index || g.StateBytes <= 0 || g.StateBytes > maxPart {
			return nil, fmt.Errorf("%w: manifest: group %d", ErrDamaged, g.Shard)
		}
		for _, s := range g.Segments {
			if !slices.Contains(journal.Parts(), s.Part) || s.Length == 0 || s.Length > maxSegment {
				return nil, fmt.Errorf("%w: manifest: segment %d.%d", ErrDamaged, s.Part, s.Number)
			}
		}
	}
	return m, nil
}
