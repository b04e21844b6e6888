package machine_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/engine/machine"
	"tollgate/engine/page"
	"tollgate/engine/wire"
)

// noted is a record of a ring.
type noted struct {
	key [16]byte
	at  int64
}

func (r *noted) Fields(w *wire.Codec) {
	w.ID(1, &r.key)
	w.Int(2, &r.at)
}

// TestRingAgreesWithAMap: whatever is kept and forgotten, the newest of each key is found
// until it is forgotten, and after a restore, too.
func TestRingAgreesWithAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := machine.Ring[noted]{
			Table: page.NewTable(page.NewStore(), 1, machine.RecordCodec[noted]()),
			Max:   uint64(rapid.IntRange(1, 6).Draw(t, "max")), By: page.NewIndex(),
			Hash: func(id *[16]byte) uint64 { return uint64(id[0]) << 60 },
			Key:  func(r *noted) [16]byte { return r.key }, At: func(r *noted) int64 { return r.at },
		}
		model := map[[16]byte]int64{}
		now, forgotten := int64(0), int64(0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			key := [16]byte{byte(rapid.IntRange(0, 9).Draw(t, "key"))}
			switch now++; rapid.IntRange(0, 9).Draw(t, "step") {
			case 0, 1, 2:
				forgotten = max(forgotten, now-int64(rapid.IntRange(0, 4).Draw(t, "kept")))
				k.Forget(forgotten)
			case 3:
				k.By = page.NewIndex()
				k.Reindex()
			default:
				if k.To-k.From < k.Max {
					k.Keep(noted{key, now})
					model[key] = now
				}
			}
			require.True(t, k.Consistent())
			for name := range byte(10) {
				row, want := k.Find([16]byte{name}, forgotten), model[[16]byte{name}]
				if want <= forgotten {
					require.Zero(t, row)
					continue
				}
				require.NotZero(t, row)
				require.Equal(t, want, k.Table.Read(row).at)
			}
		}
	})
}
