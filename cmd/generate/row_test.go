package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestARowHasAllFields: each field of a struct is in its row once, or left out by name.
func TestARowHasAllFields(t *testing.T) {
	const declared = "type Color uint8\n\ntype place struct{ X, Y uint32 }\n\n"
	text, err := generate(t, declared+`
//schema:row To.X ID From.X
//schema:row Name On -Note From.Y Color To.Y
type Row struct {
	ID       [16]byte
	Name     [5]byte
	From, To place
	Color    Color
	On       bool
	rest
}

type rest struct{ Note uint64 }
`)
	require.NoError(t, err)
	require.Contains(t, text, `func appendRow(dst []byte, v *Row) []byte {
	dst = rows.AppendU32(dst, v.To.X)
	dst = append(dst, v.ID[:]...)
	dst = rows.AppendU32(dst, v.From.X)
	dst = append(dst, v.Name[:]...)
	dst = append(dst, rows.Flags(v.On))
	dst = rows.AppendU32(dst, v.From.Y)
	dst = append(dst, uint8(v.Color))
	dst = rows.AppendU32(dst, v.To.Y)
	return dst
}
`)
	require.Contains(t, text, `	r := rows.Reader{Rest: src}
	v.To.X = r.U32()
	v.ID = r.ID()
	v.From.X = r.U32()
	copy(v.Name[:], r.Take(len(v.Name)))
	v.On = r.U8() != 0
	v.From.Y = r.U32()
	v.Color = Color(r.U8())
	v.To.Y = r.U32()
	return r.Rest, r.Err
`)
	text, err = generate(t, declared+"//schema:row\ntype Row struct{ From, To place }\n")
	require.NoError(t, err)
	require.Regexp(t, `(?s)v\.From\.X.*v\.From\.Y.*v\.To\.X.*v\.To\.Y`, text)

	for _, c := range []struct{ row, failure string }{
		{"//schema:row\ntype Row struct{ Data []byte }", "Data"},
		{"//schema:row\ntype Row struct{ Color }", "Color"},
		{"//schema:row\ntype Row struct{ *place }", "*place"},
		{"//schema:row\ntype Row struct{ sync.Mutex }", "sync.Mutex"},
		{"//schema:row A A\ntype Row struct{ A uint8 }", "A twice"},
		{"//schema:row A -A\ntype Row struct{ A uint8 }", "A twice"},
		{"//schema:row A\ntype Row struct{ A, B uint8 }", "B is not named"},
		{"//schema:row A -C\ntype Row struct{ A uint8 }", "no field C"},
	} {
		_, err := generate(t, declared+c.row+"\n")
		require.ErrorContains(t, err, c.failure, c.row)
	}
}
