package wire_test

import (
	"bytes"
	"encoding/hex"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"

	"tollgate/engine/decimal"
	"tollgate/engine/wire"
)

// kind is a named type, as commands have them.
type kind uint8

// inner and outer have a field of each sort.
type inner struct {
	Number uint16
	Text   string
}

func (v *inner) Fields(c *wire.Codec) {
	wire.Uint(c, 1, &v.Number)
	c.String(2, &v.Text)
}

type outer struct {
	Kind    kind
	Count   uint64
	Signed  int64
	Yes     bool
	Text    string
	Blob    []byte
	ID      [16]byte
	Hash    [32]byte
	Amount  decimal.Decimal
	Inner   inner
	List    []inner
	Strings []string
	Late    uint32
}

func (v *outer) Fields(c *wire.Codec) {
	wire.Uint(c, 1, &v.Kind)
	wire.Uint(c, 2, &v.Count)
	c.Int(3, &v.Signed)
	c.Bool(4, &v.Yes)
	c.String(5, &v.Text)
	c.Blob(6, &v.Blob)
	c.ID(7, &v.ID)
	c.Hash(8, &v.Hash)
	c.Decimal(9, &v.Amount)
	if !c.Message(10, &v.Inner) {
		c.Fail("no inner message")
	}
	wire.List(c, 11, &v.List)
	c.Strings(12, &v.Strings)
	wire.Uint(c, 200, &v.Late)
}

// flat resembles a hot path: no nested messages, which make a value escape.
type flat struct {
	Kind   kind
	Signed int64
	Blob   []byte
	ID     [16]byte
	Amount decimal.Decimal
	Yes    bool
	Late   uint32
}

func (v *flat) Fields(c *wire.Codec) {
	wire.Uint(c, 1, &v.Kind)
	c.Int(3, &v.Signed)
	c.Blob(6, &v.Blob)
	c.ID(7, &v.ID)
	c.Decimal(9, &v.Amount)
	c.Bool(10, &v.Yes)
	wire.Uint(c, 20, &v.Late)
}

func unhex(s string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		panic(err)
	}
	return b
}

func draw(t *rapid.T) *outer {
	v := &outer{
		Kind: kind(rapid.Uint8().Draw(t, "kind")), Count: rapid.Uint64().Draw(t, "count"),
		Signed: rapid.Int64().Draw(t, "signed"), Yes: rapid.Bool().Draw(t, "yes"),
		Text: rapid.String().Draw(t, "text"), Late: rapid.Uint32().Draw(t, "late"),
		Strings: rapid.SliceOfN(rapid.String(), 0, 3).Draw(t, "strings"),
	}
	copy(v.ID[:], rapid.SliceOfN(rapid.Byte(), 0, 16).Draw(t, "id"))
	copy(v.Hash[:], rapid.SliceOfN(rapid.Byte(), 0, 32).Draw(t, "hash"))
	if b := rapid.SliceOf(rapid.Byte()).Draw(t, "blob"); len(b) > 0 {
		v.Blob = b
	}
	if len(v.Strings) == 0 {
		v.Strings = nil
	}
	shift := rapid.IntRange(0, 63).Draw(t, "shift")
	hi, lo := rapid.Int64().Draw(t, "hi"), rapid.Uint64().Draw(t, "lo")
	v.Amount = decimal.FromBits(hi>>shift, lo>>shift)
	if !v.Amount.InRange() {
		v.Amount = decimal.Largest()
	}
	for range rapid.IntRange(0, 3).Draw(t, "items") {
		// Lengths around the one where a varint gets longer.
		n := rapid.SampledFrom([]int{0, 1, 120, 123, 124, 125, 16380, 16384}).Draw(t, "length")
		v.List = append(v.List, inner{rapid.Uint16().Draw(t, "number"), strings.Repeat("x", n)})
	}
	return v
}

func TestWhatIsEncodedDecodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want, got := draw(t), &outer{}
		b := wire.Encode([]byte("before"), want)
		require.True(t, bytes.HasPrefix(b, []byte("before")))
		require.NoError(t, wire.Decode(b[6:], got))
		require.Equal(t, want, got)
		text := &outer{}
		require.NoError(t, wire.DecodeText(string(b[6:]), text))
		require.Equal(t, want, text)
		for n := range min(len(b)-6, 40) {
			if small := (&outer{}); wire.Decode(b[6:6+n], small) == nil {
				require.Equal(t, b[6:6+n], wire.Encode(nil, small), "a prefix of whole fields")
			}
		}
	})
}

func TestTheBytesAreThese(t *testing.T) {
	amount := decimal.FromBits(-1, math.MaxUint64-255) // −256 × 10⁻¹²
	v := &outer{
		Kind: 7, Count: 300, Signed: -2, Yes: true, Text: "ab", Blob: []byte{0}, Amount: amount,
		Inner: inner{1, ""}, List: []inner{{}, {0, "z"}}, Strings: []string{"", "q"}, Late: 1,
	}
	want := unhex("0807 10ac02 1803 2001 2a026162 320100 4a02ff00 52020801 5a00 5a0312017a" +
		"6200 620171 c00c01")
	require.Equal(t, want, wire.Encode(nil, v))
	require.Equal(t, unhex("5200"), wire.Encode(nil, &outer{}), "zero values are not written")
}

func TestThereIsOneEncoding(t *testing.T) {
	for name, bad := range map[string]string{
		"zero number":             "0800 5200",
		"zero signed":             "1800 5200",
		"false":                   "2000 5200",
		"boolean of 2":            "2002 5200",
		"empty text":              "2a00 5200",
		"empty blob":              "3200 5200",
		"zero id":                 "3a10 00000000000000000000000000000000 5200",
		"short id":                "3a01 01 5200",
		"long varint":             "108100 5200",
		"long tag":                "888000 07 5200",
		"long length":             "2a8100 61 5200",
		"number too large":        "088002 5200",
		"varint without end":      "10ffffffffffffffffffff01 5200",
		"length beyond the end":   "2a05 6162",
		"huge length":             "2affffffffffffffffff01 61",
		"wrong wire type":         "0a0107 5200",
		"group":                   "0b",
		"field number 0":          "0001 5200",
		"unknown field":           "5200 6801",
		"fields out of order":     "1001 0801 5200",
		"a field twice":           "0801 0801 5200",
		"unknown field in nested": "5202 1801",
		"nested beyond the end":   "5205 0801",
		"zero decimal":            "4a0100 5200",
		"decimal in long form":    "4a020001 5200",
		"decimal of 17 bytes":     "4a11 0100000000000000000000000000000000 5200",
		"decimal out of range":    "4a10 7fffffffffffffffffffffffffffffff 5200",
		"empty decimal":           "4a00 5200",
		"half a tag":              "80",
	} {
		require.ErrorIs(t, wire.Decode(unhex(bad), &outer{}), wire.ErrField, name)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(wire.Encode(nil, &outer{
		Kind: 7, Count: 300, Signed: -2, Yes: true, Text: "ab", Blob: []byte{0}, ID: [16]byte{1},
		Hash: [32]byte{2}, Amount: decimal.FromInt(-5), List: []inner{{}, {1, "z"}},
		Strings: []string{"", "q"}, Late: 1,
	}))
	f.Add(unhex("5200"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var v outer
		if err := wire.Decode(data, &v); err != nil {
			require.ErrorIs(t, err, wire.ErrField)
			return
		}
		require.Equal(t, data, nonNil(wire.Encode(nil, &v), data))
	})
}

// nonNil makes an absent and an empty encoding compare equal.
func nonNil(b, like []byte) []byte {
	if len(b) == 0 && len(like) == 0 {
		return like
	}
	return b
}

func TestAnOlderVersionHasNoNestedMessage(t *testing.T) {
	v, c := inner{}, wire.NewDecoder(nil)
	require.False(t, c.Message(1, &v))
	require.NoError(t, c.Close())
}

func event() *flat {
	return &flat{
		Kind: 1, Signed: 1_700_000_000_000, Blob: []byte("meta"), ID: [16]byte{1},
		Amount: decimal.FromInt(3), Late: 9,
	}
}

func TestHotPathsAllocateNothing(t *testing.T) {
	v, buf := event(), make([]byte, 0, 1024)
	var encoded []byte
	require.Zero(t, testing.AllocsPerRun(100, func() {
		c := wire.NewEncoder(buf)
		v.Fields(&c)
		encoded = c.Encoded()
	}))
	require.Zero(t, testing.AllocsPerRun(100, func() {
		var got flat
		c := wire.NewDecoder(encoded)
		got.Fields(&c)
		if c.Close() != nil || got.Late != 9 {
			panic("not decoded")
		}
	}))
}

// TestTextsAliasTheStringTheyAreDecodedFrom: a text allocates nothing, and who writes into a blob
// changes no string.
func TestTextsAliasTheStringTheyAreDecodedFrom(t *testing.T) {
	text := string(wire.Encode(nil, &inner{Number: 7, Text: strings.Repeat("long ", 20)}))
	require.Zero(t, testing.AllocsPerRun(100, func() {
		var got inner
		c := wire.NewTextDecoder(text)
		got.Fields(&c)
		if c.Close() != nil || len(got.Text) != 100 {
			panic("not decoded")
		}
	}))
	text = string(wire.Encode(nil, event()))
	before := strings.Clone(text)
	var got flat
	require.NoError(t, wire.DecodeText(text, &got))
	got.Blob[0] = 'M'
	require.Equal(t, before, text)
}

func BenchmarkDecode(b *testing.B) {
	encoded := wire.Encode(nil, event())
	b.ReportAllocs()
	for b.Loop() {
		var got flat
		c := wire.NewDecoder(encoded)
		got.Fields(&c)
		if err := c.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	v, buf := event(), make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		c := wire.NewEncoder(buf)
		v.Fields(&c)
	}
}

func TestShortFieldsAreWrittenAsProtowireWritesThem(t *testing.T) {
	for _, n := range []protowire.Number{1, 15, 16, 2047, 2048} {
		for _, size := range []int{1, 127, 128, 255, 256, 1 << 14} {
			blob := bytes.Repeat([]byte{7}, size)
			w := wire.NewEncoder([]byte("before"))
			w.Blob(n, &blob)
			want := protowire.AppendTag([]byte("before"), n, protowire.BytesType)
			require.Equal(t, protowire.AppendBytes(want, blob), w.Encoded())
		}
		for _, v := range []uint64{1, 127, 128, 1 << 14, math.MaxUint64} {
			w := wire.NewEncoder(nil)
			wire.Uint(&w, n, &v)
			want := protowire.AppendTag(nil, n, protowire.VarintType)
			require.Equal(t, protowire.AppendVarint(want, v), w.Encoded())
		}
	}
}
