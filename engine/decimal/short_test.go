package decimal

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestAShortIsItsDecimal(t *testing.T) {
	for _, c := range []struct {
		text  string
		kind  Short
		short bool
	}{
		{"0", 0, true},
		{"0.000000000001", 0, true},
		{"-0.000000000001", 0, true},
		{"2305843.009213693951", 0, true},
		{"-2305843.009213693952", 0, true},
		{"2305843.009213693952", 0, false},
		{"2305843.009214", 1, true},
		{"-2305844", 1, true},
		{"2305843009213.693951", 1, true},
		{"2305843009213.693952", 0, false},
		{"2305843009214", 2, true},
		{"2305843009213693951", 2, true},
		{"-2305843009213693951", 2, true},
		{"2305843009213693952", 0, false},
		{"1000000000000000000000000", 0, false},
	} {
		d := MustParse(c.text)
		s, ok := d.Short()
		require.Equal(t, c.short, ok, c.text)
		if ok {
			require.Equal(t, c.kind, s&NoShort, c.text)
			require.Equal(t, d, s.Decimal(), c.text)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		d := Decimal{rapid.Int64Range(-limitHi, limitHi-1).Draw(t, "hi"), rapid.Uint64().Draw(t, "lo")}
		switch rapid.IntRange(0, 3).Draw(t, "size") {
		case 0:
			d = Decimal{0, d.lo >> 3}
		case 1:
			d = FromInt(int64(d.lo))
		case 2:
			d = Decimal{d.hi >> 62, d.lo}
		}
		if s, ok := d.Short(); ok {
			require.NotEqualValues(t, NoShort, s&NoShort)
			require.Equal(t, d, s.Decimal())
		}
	})
	require.Equal(t, Decimal{}, Short(0).Decimal())
}

func BenchmarkShort(b *testing.B) {
	for _, text := range []string{"1234567.5", "123456789.25"} {
		b.Run(text, func(b *testing.B) {
			d := MustParse(text)
			for b.Loop() {
				if s, _ := d.Short(); s.Decimal() != d {
					b.Fatal(s)
				}
			}
		})
	}
}
