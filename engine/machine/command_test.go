package machine_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/engine"
	"tollgate/engine/machine"
	"tollgate/engine/wire"
)

// plain is a command of which all fields were there from the beginning, grown one with a later one.
type plain struct{ note string }

func (c *plain) Fields(w *wire.Codec) { w.String(1, &c.note) }

type grown struct{ plain }

func (c *grown) Since() uint32 {
	if c.note != "" {
		return 2
	}
	return 0
}

// TestSinceGoesByTheFields: a command that says since when there are its fields is asked.
func TestSinceGoesByTheFields(t *testing.T) {
	table := machine.Table[int, int]{
		1: machine.Of[int](func(*plain, int) engine.Outcome { return engine.OutcomeDone }),
		2: machine.Of[int](func(*grown, int) engine.Outcome { return engine.OutcomeDone }),
		3: {Name: "carrier", Carries: func(payload []byte) (engine.Record, bool) {
			return engine.Record{Kind: 2, Payload: payload}, true
		}},
	}
	set := wire.Encode(nil, &plain{note: "set"})
	for kind, version := range map[engine.Kind]uint32{1: 0, 2: 2, 3: 2} {
		require.Equal(t, version, table.Since(engine.Record{Kind: kind, Payload: set}))
		require.Zero(t, table.Since(engine.Record{Kind: kind}))
		require.Zero(t, table.Since(engine.Record{Kind: kind, Payload: []byte{0xff}}))
	}
}
