package workspace

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/engine/page"
)

// TestKeptAgreesWithAMap: whatever is kept and forgotten, the newest of each key is found
// until it is forgotten, and after a restore, too.
func TestKeptAgreesWithAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := kept[request]{
			table: page.NewTable(page.NewStore(), 1, recordCodec[request]()),
			most:  uint64(rapid.IntRange(1, 6).Draw(t, "most")), by: page.NewIndex(),
			hash: func(id *[16]byte) uint64 { return uint64(id[0]) << 60 },
			key:  func(r *request) [16]byte { return r.Key }, at: func(r *request) int64 { return r.At },
		}
		model := map[[16]byte]int64{}
		now, forgotten := int64(0), int64(0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			key := [16]byte{byte(rapid.IntRange(0, 9).Draw(t, "key"))}
			switch now++; rapid.IntRange(0, 9).Draw(t, "step") {
			case 0, 1, 2:
				forgotten = max(forgotten, now-int64(rapid.IntRange(0, 4).Draw(t, "kept")))
				k.forget(forgotten)
			case 3:
				k.by = page.NewIndex()
				k.reindex()
			default:
				if k.to-k.from < k.most {
					k.keep(request{Key: key, At: now})
					model[key] = now
				}
			}
			require.True(t, k.consistent())
			for name := range byte(10) {
				row, want := k.find([16]byte{name}, forgotten), model[[16]byte{name}]
				if want <= forgotten {
					require.Zero(t, row)
					continue
				}
				require.NotZero(t, row)
				require.Equal(t, want, k.table.Read(row).At)
			}
		}
	})
}
