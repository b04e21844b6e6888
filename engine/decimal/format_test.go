package decimal

import (
	stdjson "encoding/json"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"
)

type document struct {
	Price Decimal  `json:"price"`
	Cap   *Decimal `json:"cap,omitempty"`
	Fee   Decimal  `json:"fee,omitzero"`
}

// libraries are the two JSON packages that meet a Decimal.
var libraries = map[string]struct {
	marshal   func(any) ([]byte, error)
	unmarshal func([]byte, any) error
}{
	"encoding/json": {stdjson.Marshal, stdjson.Unmarshal},
	"json/v2": {
		func(v any) ([]byte, error) { return json.Marshal(v) },
		func(text []byte, v any) error { return json.Unmarshal(text, v) },
	},
}

func TestJSONNumbers(t *testing.T) {
	for name, library := range libraries {
		var d document
		text := `{"price":1.50e-2,"cap":1000000000000000000000000}`
		require.NoError(t, library.unmarshal([]byte(text), &d), name)
		require.Equal(t, MustParse("0.015"), d.Price, name)
		require.Equal(t, Largest(), *d.Cap, name)
		out, err := library.marshal(d)
		require.NoError(t, err, name)
		require.Equal(t, `{"price":0.015,"cap":1000000000000000000000000}`, string(out), name)
		require.NoError(t, library.unmarshal([]byte(`{"cap":null}`), &d), name)
		require.Nil(t, d.Cap, name)
	}
}

func TestJSONRefusesWhatIsNoNumber(t *testing.T) {
	for name, library := range libraries {
		for _, text := range []string{
			`{"price":"1"}`, `{"price":null}`, `{"price":true}`, `{"price":[1]}`, `{"price":{}}`,
			`{"price":1e-13}`, `{"price":1e25}`, `{"price":01}`, `{"price":NaN}`, `{"price":"NaN"}`,
		} {
			var d document
			require.Error(t, library.unmarshal([]byte(text), &d), "%s: %s", name, text)
			require.Zero(t, d.Price, name)
		}
	}
}

func TestAppendTextAgrees(t *testing.T) {
	text, err := MustParse("-1.25").AppendText([]byte("x"))
	require.NoError(t, err)
	require.Equal(t, "x-1.25", string(text))
	require.Equal(t, "-170141183460469231731687303.715884105728", FromBits(-1<<63, 0).String())
}

func TestMinorUnits(t *testing.T) {
	for currency, want := range map[string]int{
		"USD": 2, "EUR": 2, "JPY": 0, "KRW": 0, "KWD": 3, "TND": 3, "CLF": 4, "XOF": 0, "XCG": 2,
	} {
		places, ok := MinorUnits(currency)
		require.True(t, ok, currency)
		require.Equal(t, want, places, currency)
	}
	for _, currency := range []string{"", "usd", "US", "USDX", "XXX", "XAU", "XTS", "HRK", "ABC"} {
		_, ok := MinorUnits(currency)
		require.False(t, ok, currency)
	}
	count := 0
	var code [3]byte
	for i := range 26 * 26 * 26 {
		code = [3]byte{'A' + byte(i/676), 'A' + byte(i/26%26), 'A' + byte(i%26)}
		if _, ok := MinorUnits(string(code[:])); ok {
			count++
		}
	}
	require.Equal(t, 165, count, "currencies of the list")
}
