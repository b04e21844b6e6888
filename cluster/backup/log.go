package backup

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// LogVersion is the version of the format of kept logs that this build writes, and the newest that
// it reads.
const LogVersion = 1

const logMagic = "TGLG"

// maxEntries bounds a frame of entries: one is added at most to what fills a piece.
const maxEntries = 64 << 20

// ErrNotKept means that the entries up to an instant are not all in what was kept.
var ErrNotKept = errors.New("backup: that moment was not kept")

// Log is a kept piece of the log of one Raft group: committed entries, one after the other.
type Log struct {
	// Cluster is the identity of the cluster, "" of one that was never restored.
	Cluster string `json:"cluster,omitempty"`
	Shard   uint16 `json:"shard"`
	// First and Last are the indexes of its first and its last entry.
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	// Until is the newest stamp in it, in milliseconds since 1970 UTC; 0 if no entry has one.
	Until int64 `json:"until,omitempty"`
}

// LogEntry is an entry of a log. One that is not a command is Raft's own: its bytes are not kept.
type LogEntry struct {
	Index, Term uint64
	Command     bool
	Data        []byte
}

const (
	logPrefix, logSuffix = "log-", ".log"
	logTime              = "20060102T150405.000Z"
	// logNobody is in the name of a file in place of the identity of a cluster without one.
	logNobody = "first"
)

// ClusterName is what a cluster is called, also in names of files: its identity, or a word.
func ClusterName(cluster string) string { return cmp.Or(cluster, logNobody) }

// LogPrefix begins the names of the kept logs of a cluster.
func LogPrefix(cluster string) string { return logPrefix + ClusterName(cluster) + "-" }

// File is the name of the file; names of one group are in the order of the log.
func (l Log) File() string {
	return fmt.Sprintf("%s%d-%014d-%014d-%s%s", LogPrefix(l.Cluster), l.Shard, l.First, l.Last,
		time.UnixMilli(l.Until).UTC().Format(logTime), logSuffix)
}

// ParseLog reads the name of a kept log; false if a file is none.
func ParseLog(file string) (l Log, ok bool) {
	name, ours := strings.CutPrefix(file, logPrefix)
	name, ends := strings.CutSuffix(name, logSuffix)
	parts := strings.Split(name, "-")
	if !ours || !ends || len(parts) != 5 {
		return l, false
	}
	if l.Cluster = parts[0]; l.Cluster == logNobody {
		l.Cluster = ""
	}
	shard, err := strconv.ParseUint(parts[1], 10, 16)
	first, firstErr := strconv.ParseUint(parts[2], 10, 64)
	last, lastErr := strconv.ParseUint(parts[3], 10, 64)
	until, untilErr := time.Parse(logTime, parts[4])
	l.Shard, l.First, l.Last, l.Until = uint16(shard), first, last, until.UnixMilli()
	return l, errors.Join(err, firstErr, lastErr, untilErr) == nil && l.File() == file
}

// WriteLog writes a kept log, whose entries each returns one after the other.
func WriteLog(w io.Writer, l Log, each func(index uint64) (LogEntry, error)) error {
	text, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("backup: log: %w", err)
	}
	var f framing
	if err := f.begin(w, logMagic, LogVersion, text); err != nil {
		return err
	}
	var piece []byte
	for i := l.First; i <= l.Last; i++ {
		e, err := each(i)
		if err != nil {
			return err
		}
		if piece = appendEntry(piece, e); len(piece) >= chunkBytes || i == l.Last {
			f.put(frameEntries, piece)
			piece = piece[:0]
		}
	}
	return f.end()
}

func appendEntry(to []byte, e LogEntry) []byte {
	if !e.Command {
		return binary.AppendUvarint(append(to, 0), e.Term)
	}
	to = binary.AppendUvarint(append(to, 1), e.Term)
	return append(binary.AppendUvarint(to, uint64(len(e.Data))), e.Data...)
}

// ReadLog reads a kept log and passes on its entries, whose data is good until the next one. They
// count only once it has returned: then is every byte proven. A damaged one is ErrDamaged.
func ReadLog(src io.Reader, each func(LogEntry) error) (l Log, err error) {
	var r frameReader
	text, err := r.begin(src, logMagic, "kept log", LogVersion)
	if err != nil {
		return l, err
	}
	if err := json.Unmarshal(text, &l); err != nil || l.First == 0 || l.Last < l.First {
		return l, fmt.Errorf("%w: manifest of a log", ErrDamaged)
	}
	for next := l.First; next <= l.Last; {
		piece, err := r.next(frameEntries, maxEntries)
		if err != nil {
			return l, err
		}
		if len(piece) == 0 {
			return l, fmt.Errorf("%w: a frame without entries", ErrDamaged)
		}
		for ; len(piece) > 0; next++ {
			e, rest, whole := cutEntry(piece)
			if !whole || next > l.Last {
				return l, fmt.Errorf("%w: entry %d", ErrDamaged, next)
			}
			e.Index, piece = next, rest
			if err := each(e); err != nil {
				return l, err
			}
		}
	}
	if err := r.end(); err != io.EOF {
		return l, err
	}
	return l, nil
}

// cutEntry reads the entry that a piece begins with.
func cutEntry(piece []byte) (e LogEntry, rest []byte, ok bool) {
	kind, rest := piece[0], piece[1:]
	term, n := binary.Uvarint(rest)
	if n <= 0 || term == 0 || kind > 1 {
		return e, nil, false
	}
	e.Term, e.Command, rest = term, kind == 1, rest[n:]
	if !e.Command {
		return e, rest, true
	}
	length, n := binary.Uvarint(rest)
	if n <= 0 || length > uint64(len(rest)-n) {
		return e, nil, false
	}
	rest = rest[n:]
	e.Data = rest[:length:length]
	return e, rest[length:], true
}

// behind are the logs of a group with entries behind a backup's, in order. Where two overlap, as
// when another node went on, the one that comes further is first.
func behind(logs []Log, group *Group, cluster string) []Log {
	logs = slices.DeleteFunc(slices.Clone(logs), func(l Log) bool {
		return l.Cluster != cluster || l.Shard != group.Shard || l.Last <= group.Index
	})
	slices.SortFunc(logs, func(a, b Log) int {
		return cmp.Or(cmp.Compare(a.First, b.First), -cmp.Compare(a.Last, b.Last))
	})
	return logs
}

// Gap reports whether entries are missing among the logs that were kept behind a backup of a group:
// no restore of it goes on behind the gap.
func Gap(logs []Log, group *Group, cluster string) bool {
	end := group.Index
	for _, l := range behind(logs, group, cluster) {
		if l.First > end+1 {
			return true
		}
		end = max(end, l.Last)
	}
	return false
}

// Chain returns the logs that go on behind an entry of a group, up to the first one that has an
// entry of after an instant: with that, there is none of before the instant that they lack. It is
// ErrNotKept if they do not come so far, or one is missing.
func Chain(logs []Log, group *Group, cluster string, at time.Time) (chain []Log, err error) {
	logs = behind(logs, group, cluster)
	if len(logs) == 0 {
		return nil, fmt.Errorf("%w: no log of group %s of cluster %s was kept behind its backup of %s",
			ErrNotKept, group.Name, ClusterName(cluster), moment(group.Stamp))
	}
	end, until := group.Index, group.Stamp
	for _, l := range logs {
		switch {
		case l.Last <= end:
			continue
		case l.First > end+1:
			return nil, fmt.Errorf("%w: entries %d to %d of group %s are missing: want a time before %s, "+
				"or one after the next backup", ErrNotKept, end+1, l.First-1, group.Name, moment(until))
		}
		chain, end, until = append(chain, l), l.Last, max(until, l.Until)
		if until > at.UnixMilli() {
			return chain, nil
		}
	}
	return nil, fmt.Errorf("%w: the log of group %s of cluster %s ends at %s: want a time before that",
		ErrNotKept, group.Name, ClusterName(cluster), moment(until))
}

// moment is how a stamp is said.
func moment(stamp int64) string {
	return time.UnixMilli(stamp).UTC().Format("2006-01-02T15:04:05.000Z07:00")
}
