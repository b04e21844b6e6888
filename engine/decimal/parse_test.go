package decimal

import (
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"0": "0", "-0": "0", "0.0": "0", "-0.000e5": "0", "0e999999999999999999999": "0",
		"1": "1", "-1": "-1", "10": "10", "1.5": "1.5", "1.50": "1.5", "-0.05": "-0.05",
		"1e3": "1000", "1E+3": "1000", "1.50e-2": "0.015", "10e-13": "0.000000000001",
		"0.000000000001":                        "0.000000000001",
		"1.0000000000000000000000000000000":     "1",
		"1e24":                                  "1000000000000000000000000",
		"-1e24":                                 "-1000000000000000000000000",
		"1000000000000000000000000.000":         "1000000000000000000000000",
		"123456789012345678901234.123456789012": "123456789012345678901234.123456789012",
		"0.00000000000000000000000000001e20":    "0.000000001",
		"18446744073709551616":                  "18446744073709551616",
		"9999999999999999999.9":                 "9999999999999999999.9",
	} {
		d, err := Parse(text)
		require.NoError(t, err, text)
		require.Equal(t, want, d.String(), text)
		fromBytes, err := Parse([]byte(text))
		require.NoError(t, err, text)
		require.Equal(t, d, fromBytes, text)
	}
}

func TestParseRefuses(t *testing.T) {
	for want, texts := range map[error][]string{
		ErrSyntax: {
			"", "-", "+1", "01", "-01", "00", "1.", ".5", "-.5", "1.e1", "1e", "1e+", "1ee1", "e1",
			"1e1.5", "NaN", "Inf", "-Infinity", "0x1", "1_000", " 1", "1 ", "1,5", "--1", "1.2.3",
			"\"1\"", "null", "1\x00", "１", "01.5e1", "00000000000000000000001",
		},
		ErrPlaces: {
			"0.0000000000001", "1e-13", "1.0000000000001", "5e-999999999999999999999",
			"1." + strings.Repeat("0", 40) + "1",
		},
		ErrRange: {
			"1e25", "-1e25", "1000000000000000000000001", "1000000000000000000000000.000000000001",
			"1e999999999999999999999", strings.Repeat("9", 60), "340282366920938463463374607431",
		},
	} {
		for _, text := range texts {
			_, err := Parse(text)
			require.ErrorIs(t, err, want, text)
		}
	}
}

func TestParseLooseTakesBareFractions(t *testing.T) {
	for text, want := range map[string]string{
		".01": "0.01", "-.5": "-0.5", ".005e2": "0.5", "1.5": "1.5", "7": "7",
	} {
		d, err := ParseLoose(text)
		require.NoError(t, err, text)
		require.Equal(t, want, d.String(), text)
	}
	for _, text := range []string{"", ".", "-.", "1.", ".e1", "+.5", "01", "00.5"} {
		_, err := ParseLoose(text)
		require.ErrorIs(t, err, ErrSyntax, text)
	}
}

func TestMustParsePanics(t *testing.T) {
	require.Panics(t, func() { MustParse("1.") })
}

func TestTextRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := anyDecimal().Draw(t, "d")
		text := d.String()
		parsed, err := Parse(text)
		require.NoError(t, err)
		require.Equal(t, d, parsed)
		require.NotContains(t, text, "e")
		if strings.Contains(text, ".") {
			require.NotContains(t, "0.", text[len(text)-1:], text)
		}
		want, ok := new(big.Rat).SetString(text)
		require.True(t, ok)
		require.Zero(t, want.Cmp(rat(d)))
	})
}

// grammar is the number of RFC 8259, with its exponent apart.
var grammar = regexp.MustCompile(`^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE]([+-]?[0-9]+))?$`)

// checkParse compares Parse with the grammar and math/big.
func checkParse(t require.TestingT, text string) {
	d, err := Parse(text)
	fromBytes, bytesErr := Parse([]byte(text))
	require.Equal(t, err, bytesErr, text)
	require.Equal(t, d, fromBytes, text)
	match := grammar.FindStringSubmatch(text)
	if match == nil {
		require.ErrorIs(t, err, ErrSyntax, text)
		return
	}
	require.NotErrorIs(t, err, ErrSyntax, text)
	if exponent, e := strconv.Atoi(match[1]); match[1] != "" && (e != nil || exponent < -500 ||
		exponent > 500) {
		return // math/big would write out all of its digits
	}
	want, ok := new(big.Rat).SetString(text)
	require.True(t, ok, text)
	scaled := new(big.Rat).Mul(want, new(big.Rat).SetInt64(one))
	inRange := scaled.IsInt() && scaled.Num().CmpAbs(bigLimit) <= 0
	require.Equal(t, inRange, err == nil, "%s: %v", text, err)
	if inRange {
		require.Zero(t, want.Cmp(rat(d)), text)
		loose, err := ParseLoose(text)
		require.NoError(t, err)
		require.Equal(t, d, loose)
	}
}

func TestParseAgreesWithBig(t *testing.T) {
	digits := rapid.StringMatching(`[0-9]{0,3}0{0,20}[0-9]{0,20}`)
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SampledFrom([]string{"", "-", "+"}).Draw(t, "sign") +
			digits.Draw(t, "whole") +
			rapid.SampledFrom([]string{"", "."}).Draw(t, "point") +
			digits.Draw(t, "fraction") +
			rapid.StringMatching(`(?:[eE][+-]?[0-9]{0,2})?`).Draw(t, "exponent")
		checkParse(t, text)
	})
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"0", "-0.5", "1e24", "1e-12", "123456789012345678901234.123456789012", "01", "1.", "NaN",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { checkParse(t, text) })
}
