package enginetest

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/engine"
	"tollgate/engine/journal"
)

// redraw replaces the stored histories by newly drawn ones; -rewrite (the scenarios' flag) keeps
// them and stores what comes of them now.
var redraw = flag.Bool("redraw", false, "draw the pinned histories anew")

// History is a drawn log of a machine, under the name of what drew it.
type History struct {
	Name    string
	Entries [][]byte
}

// Drawn draws histories of at least six entries: shorter ones say little.
func Drawn(name string, count int, draw func(*rapid.T) [][]byte) (all []History) {
	generator := rapid.Custom(draw)
	for seed := 1; len(all) < count; seed++ {
		if entries := generator.Example(seed); len(entries) >= 6 {
			all = append(all, History{fmt.Sprint(name, " ", seed), entries})
		}
	}
	return all
}

// Played are the histories of scenario files, which have commands that are seldom drawn.
func Played(t *testing.T, files []string, play func(*testing.T, string) [][]byte) (all []History) {
	t.Helper()
	require.NotEmpty(t, files)
	for _, file := range files {
		all = append(all, History{filepath.Base(file), play(t, file)})
	}
	return all
}

// Pins compares what comes of stored histories with what came of them when they were pinned: for
// each entry the results, the state hash, the next due instant, the work and the sealed segments;
// at the end the snapshot and the open segments of the journal. Two builds that pass with the same
// pins can run in one cluster. When a change may alter the pins stands in engine/DESIGN.md.
type Pins struct {
	// Folder holds entries.gz, the histories, and effects.txt.gz, what came of them.
	Folder string
	// Open makes an empty machine.
	Open func() engine.Machine
	// Work is how many units of work the last entry was; nil where a machine does not count it.
	Work func(engine.Machine) int
	// Draw makes the histories that -redraw stores.
	Draw func(*testing.T) []History
}

// Covers checks that stored histories have each of the kinds but for those that are excused, and
// each of the scenarios, by the names of their files: what is not pinned may change by accident.
func (p Pins) Covers(t *testing.T, kinds, excused []engine.Kind, scenarios []string) {
	t.Helper()
	has, names := map[engine.Kind]bool{}, map[string]bool{}
	for _, h := range readHistories(t, unpack(t, filepath.Join(p.Folder, "entries.gz"))) {
		names[h.Name] = true
		for _, entry := range h.Entries {
			_, records, err := engine.ParseEntry(entry)
			require.NoError(t, err)
			for r, more := records.Next(); more; r, more = records.Next() {
				has[r.Kind] = true
			}
		}
	}
	for _, kind := range kinds {
		require.Equal(t, !slices.Contains(excused, kind), has[kind],
			"commands of kind %d in the pinned entries: -redraw", kind)
	}
	for _, name := range scenarios {
		require.True(t, names[name], "%s has no pinned history: -redraw", name)
	}
}

// Check replays the histories and compares.
func (p Pins) Check(t *testing.T) {
	t.Helper()
	entries := filepath.Join(p.Folder, "entries.gz")
	effects := filepath.Join(p.Folder, "effects.txt.gz")
	if *redraw {
		drawn := p.Draw(t)
		pack(t, entries, appendHistories(nil, drawn))
		pack(t, effects, p.replay(drawn))
	}
	histories := readHistories(t, unpack(t, entries))
	now := string(p.replay(histories))
	if rewrite := flag.Lookup("rewrite"); rewrite != nil && rewrite.Value.String() == "true" {
		t.Log(differences(string(unpack(t, effects)), now))
		pack(t, effects, []byte(now))
	}
	if pinned := string(unpack(t, effects)); pinned != now {
		t.Fatal(differences(pinned, now) + "\nWhen pins may be written anew: engine/DESIGN.md, \"Pins\".")
	}
}

// heading begins the lines of a history.
const heading = "# "

// replay applies each history to a machine of its own and says what came of it.
func (p Pins) replay(histories []History) []byte {
	var b bytes.Buffer
	for i, h := range histories {
		fmt.Fprintf(&b, "%s%d %s, %d entries\n", heading, i+1, h.Name, len(h.Entries))
		p.replayOne(&b, h)
	}
	return b.Bytes()
}

func (p Pins) replayOne(b *bytes.Buffer, h History) {
	m := p.Open()
	var out engine.Applied
	for i, entry := range h.Entries {
		if err := m.Apply(uint64(i)+1, entry, &out); err != nil {
			fmt.Fprintf(b, "entry %d: %v\n", i+1, err)
			return
		}
		_, hash := m.StateHash()
		fmt.Fprintf(b, "entry %d: state %016x, due %d", i+1, hash, m.NextDue())
		if p.Work != nil {
			fmt.Fprintf(b, ", work %d", p.Work(m))
		}
		for _, r := range out.Results {
			fmt.Fprintf(b, ", %d", r.Outcome)
			if r.Value != nil {
				fmt.Fprintf(b, " %x", r.Value)
			}
		}
		for _, s := range out.Sealed {
			fmt.Fprintf(b, ", sealed %s of %d records %s", s, s.Records, sum(s.Data))
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(b, "snapshot: %s\n", snapshotSum(m))
	if j := m.Journal(); j != nil {
		for _, part := range journal.Parts() {
			fmt.Fprintf(b, "open %s segment: %s\n", part, sum(j.Tail(part)))
		}
	}
}

// sum stands for bytes: their number and their hash.
func sum(data []byte) string { return fmt.Sprintf("%d bytes %016x", len(data), xxhash.Sum64(data)) }

func snapshotSum(m engine.Machine) string {
	sn, err := m.Snapshot()
	if err != nil {
		return err.Error()
	}
	defer sn.Release()
	var b bytes.Buffer
	if _, err := sn.WriteTo(&b); err != nil {
		return err.Error()
	}
	return sum(b.Bytes())
}

// shownDifferences is how many histories' first differences are shown.
const shownDifferences = 5

// differences says in how many histories the effects differ, and where the first of them begin to.
func differences(pinned, now string) string {
	before, after := strings.Split(pinned, "\n"+heading), strings.Split(now, "\n"+heading)
	var text strings.Builder
	differ := 0
	for i := range min(len(before), len(after)) {
		if before[i] == after[i] {
			continue
		}
		if differ++; differ > shownDifferences {
			continue
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(after[i], heading), "\n")
		was, is := firstDifference(before[i], after[i])
		fmt.Fprintf(&text, "\n\nhistory %s\n  pinned: %s\n  now:    %s", name, was, is)
	}
	return fmt.Sprintf("%d of %d histories differ from what is pinned (%d)", differ, len(after),
		len(before)) + text.String()
}

func firstDifference(a, b string) (string, string) {
	before, after := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(before), len(after)) {
		if before[i] != after[i] {
			return before[i], after[i]
		}
	}
	return fmt.Sprintf("%d lines", len(before)), fmt.Sprintf("%d lines", len(after))
}

// appendHistories encodes: the number of histories, and of each its name, the number of its
// entries, and the entries; texts and entries behind their lengths. All numbers are uvarints.
func appendHistories(dst []byte, histories []History) []byte {
	text := func(b []byte) { dst = append(binary.AppendUvarint(dst, uint64(len(b))), b...) }
	dst = binary.AppendUvarint(dst, uint64(len(histories)))
	for _, h := range histories {
		text([]byte(h.Name))
		dst = binary.AppendUvarint(dst, uint64(len(h.Entries)))
		for _, e := range h.Entries {
			text(e)
		}
	}
	return dst
}

func readHistories(t TB, data []byte) []History {
	number := func() uint64 {
		v, n := binary.Uvarint(data)
		require.Positive(t, n)
		data = data[n:]
		return v
	}
	text := func() []byte {
		n := number()
		b := data[:n:n]
		data = data[n:]
		return b
	}
	histories := make([]History, number())
	for i := range histories {
		histories[i].Name = string(text())
		histories[i].Entries = make([][]byte, number())
		for j := range histories[i].Entries {
			histories[i].Entries[j] = text()
		}
	}
	require.Empty(t, data)
	return histories
}

func pack(t TB, path string, data []byte) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	require.NoError(t, err)
	_, err = w.Write(data)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, b.Bytes(), 0o644))
}

func unpack(t TB, path string) []byte {
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	r, err := gzip.NewReader(bytes.NewReader(file))
	require.NoError(t, err)
	data, err := io.ReadAll(r)
	require.NoError(t, err)
	return data
}
