package scan_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"tollgate/server/scan"
)

func compact(text []byte) ([]byte, error) {
	var s scan.Scanner
	s.Reset(text)
	out, ok := s.AppendCompact(nil)
	if !ok || !s.End() {
		return nil, s.Err()
	}
	return out, nil
}

var samples = []string{
	`{}`, `[]`, `null`, ` true `, `"a"`, `-0`, `1.5e+10`, `01`, `1.`, `.5`, `-`, `1e`, `NaN`, `Infinity`,
	`{"a":1,"b":[1,2,{"c":null}]}`, `{"a":1,"a":2}`, `{"a":{"a":1}}`, `{"a":1,"\u0061":2}`,
	`[1,]`, `{"a":1,}`, `{"a"}`, `{"a":}`, `{1:2}`, `[1 2]`, `"\ud83d\ude00"`, `"\ud800"`, `"\udc00\ud800"`,
	`"\u12"`, `"\x"`, "\"\xff\"", "\"a\nb\"", `"unterminated`, `{"a":"\"\\\/\b\f\n\r\t"}`, `tru`, `nulll`,
	"\ufeff{}", `{} {}`, `["é😀"]`, `{"é":1,"\u00e9":2}`, "\t[ 1 ,\r\n 2 ] ", `{"a:\"b":1, "c" : [ ] }`, ``,
	`[{"x":1},{"x":1}]`, `"\`, `"\u`, `[1]]`, `}`, `{"":"","":""}`,
}

func TestAgreesWithJSONv2(t *testing.T) {
	for _, text := range samples {
		agree(t, []byte(text))
	}
}

func FuzzAgreesWithJSONv2(f *testing.F) {
	for _, text := range samples {
		f.Add([]byte(text))
	}
	f.Fuzz(agree)
}

func agree(t *testing.T, text []byte) {
	if depth(text) > scan.MaxDepth {
		return
	}
	want := jsontext.Value(bytes.Clone(text))
	err := want.Compact(jsontext.AllowDuplicateNames(false), jsontext.AllowInvalidUTF8(false),
		jsontext.PreserveRawStrings(true))
	got, gotErr := compact(text)
	if err != nil {
		require.Error(t, gotErr, "%q: json/v2 refuses it: %v", text, err)
		return
	}
	require.NoError(t, gotErr, "%q", text)
	require.Equal(t, string(want), string(got))
	if got[0] == '"' {
		var s scan.Scanner
		s.Reset(got)
		value, ok := s.Text()
		require.True(t, ok)
		unquoted, err := jsontext.AppendUnquote(nil, got)
		require.NoError(t, err)
		require.Equal(t, string(unquoted), string(value))
	}
}

// depth is an upper bound of the text's nesting.
func depth(text []byte) int {
	now, most := 0, 0
	for _, c := range text {
		switch c {
		case '{', '[':
			now++
			most = max(most, now)
		case '}', ']':
			now--
		}
	}
	return most
}

func TestDepthIsBounded(t *testing.T) {
	deep := func(n int) []byte { return []byte(strings.Repeat("[", n) + strings.Repeat("]", n)) }
	_, err := compact(deep(scan.MaxDepth))
	require.NoError(t, err)
	_, err = compact(deep(scan.MaxDepth + 1))
	require.ErrorContains(t, err, "nested too deeply")
	_, err = compact(bytes.Repeat([]byte("["), 1<<20))
	require.ErrorContains(t, err, "nested too deeply")
	var s scan.Scanner
	s.Reset(deep(scan.MaxDepth + 1))
	s.Raise(1)
	require.True(t, s.Skip())
}

func TestManyNamesInOneObject(t *testing.T) {
	var text bytes.Buffer
	text.WriteString(`{"x":0`)
	for i := range 50_000 {
		text.WriteString(`,"n`)
		text.WriteString(strings.Repeat("a", i%7))
		text.WriteString(string(rune('0'+i%10)) + string(rune(0x4e00+i/10)))
		text.WriteString(`":1`)
	}
	_, err := compact(append(text.Bytes(), '}'))
	require.NoError(t, err)
	_, err = compact(append(text.Bytes(), `,"x":1}`...))
	require.ErrorContains(t, err, "already")
}

func TestExtent(t *testing.T) {
	for text, want := range map[string]int{
		`{"a":"}"},{}`: 9, `[1,[2]],3`: 7, `tru,1`: 3, `1]`: 1, `{"a":"\"}"}`: 11, `{"a"`: -1, ``: -1,
		`{"a":"\`: -1, `"a,b",1`: 5,
	} {
		require.Equal(t, want, scan.Extent([]byte(text)), "%q", text)
	}
}

func TestScanningAllocatesNothing(t *testing.T) {
	text := []byte(`{"a":[1,2.5,{"b":"\u00e9\n"}],"c":{"d":null,"e":true}}`)
	var s scan.Scanner
	dst := make([]byte, 0, 256)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		s.Reset(text)
		if _, ok := s.AppendCompact(dst); !ok || !s.End() {
			t.Fatal(s.Err())
		}
	}))
}
