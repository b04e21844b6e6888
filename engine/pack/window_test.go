package pack

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const words = "https:// GET POST → 200 → 201 opened the page, signed up, created an API key"

// texts draws texts that resemble each other, some of them long.
func texts(t *rapid.T) [][]byte {
	piece := rapid.OneOf(
		rapid.SampledFrom([]string{"GET /docs → 200", "signed up", "a", "aaaaaaaaaaaaaaaaaaaaaaaa", ""}),
		rapid.StringN(0, 40, -1),
		rapid.Custom(func(t *rapid.T) string {
			return strings.Repeat(rapid.StringN(1, 3, -1).Draw(t, "unit"),
				rapid.IntRange(0, 3000).Draw(t, "times"))
		}),
	)
	var all [][]byte
	for range rapid.IntRange(1, 4).Draw(t, "texts") {
		var b []byte
		for range rapid.IntRange(0, 12).Draw(t, "pieces") {
			b = append(b, piece.Draw(t, "piece")...)
		}
		all = append(all, b)
	}
	return all
}

// TestUnpackGivesWhatWasPacked: each text behind those before it, with windows that are used again.
func TestUnpackGivesWhatWasPacked(t *testing.T) {
	w := NewWords(words)
	packing, reading := NewWindow(w), NewWindow(w)
	rapid.Check(t, func(t *rapid.T) {
		packing.Reset()
		reading.Reset()
		for _, text := range texts(t) {
			packed := packing.Pack(nil, text)
			require.Equal(t, packed, packing.Pack(nil, text), "packing adds nothing to the window")
			require.True(t, bytes.Equal(text, packing.Unpack(packed)))
			require.True(t, bytes.Equal(text, reading.Unpack(packed)))
			// One plain byte of 6 is the worst that a token adds.
			require.LessOrEqual(t, len(packed), len(text)*7/6+4)
		}
	})
}

func FuzzPack(f *testing.F) {
	f.Add([]byte("signed up"), []byte("signed up, signed up"))
	f.Add([]byte("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"), []byte("aa"))
	w := NewWords(words)
	f.Fuzz(func(t *testing.T, first, second []byte) {
		packing, reading := NewWindow(w), NewWindow(w)
		for _, text := range [][]byte{first, second} {
			packed := packing.Pack(nil, text)
			packing.Unpack(packed)
			require.True(t, bytes.Equal(text, reading.Unpack(packed)))
		}
	})
}

// story is the text of the nth run.
func story(n int) []byte {
	var b []byte
	for i, path := range []string{"/", "/docs", "/docs/auth", "/signup", "/v1/keys", "/v1/account"} {
		b = fmt.Appendf(b, "%c%cGET %s?session=%x → %d;", n*i, n>>3+i, path, n*7919+i, 200+i)
	}
	return append(b, "The agent signed up, and the account endpoint answered with its key."...)
}

// TestLikeTextsAreSmall: a text after a similar one takes only the bytes that differ.
func TestLikeTextsAreSmall(t *testing.T) {
	w := NewWindow(NewWords(words))
	first := w.Pack(nil, story(1001))
	w.Unpack(first)
	second := w.Pack(nil, story(2002))
	require.Less(t, len(first), len(story(1001))*4/5, "the words and repeated text")
	require.Less(t, len(second), len(story(2002))/3)
	require.Less(t, len(w.Pack(nil, story(1001))), 6, "the same again")
}

func TestPackAndUnpackAllocateNothing(t *testing.T) {
	w := NewWindow(NewWords(words))
	text, packed := story(2002), []byte(nil)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		w.Reset()
		packed = w.Pack(packed[:0], text)
		w.Unpack(packed)
	}))
}

func BenchmarkPack(b *testing.B) {
	w := NewWindow(NewWords(words))
	base, text, packed := w.Pack(nil, story(1001)), story(2002), []byte(nil)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		w.Reset()
		w.Unpack(base)
		packed = w.Pack(packed[:0], text)
	}
	b.ReportMetric(float64(len(text))/float64(len(packed)), "ratio")
}

func BenchmarkUnpack(b *testing.B) {
	w := NewWindow(NewWords(words))
	base, text := w.Pack(nil, story(1001)), story(2002)
	w.Unpack(base)
	packed := w.Pack(nil, text)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		w.Reset()
		w.Unpack(base)
		w.Unpack(packed)
	}
}
