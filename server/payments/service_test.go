package payments

import (
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/engine/decimal"
	"tollgate/server/provider/payment"
)

// TestAmountsThereAndBack: minor units are exact, in currencies with none, two and three decimals;
// an amount that is not a whole number of them is not sent to a provider.
func TestAmountsThereAndBack(t *testing.T) {
	for _, row := range []struct {
		amount, currency string
		minor            int64
	}{
		{"20", "USD", 2000},
		{"0.01", "USD", 1},
		{"19.9", "EUR", 1990},
		{"0", "USD", 0},
		{"1234", "JPY", 1234},
		{"1.234", "KWD", 1234},
		{"0.001", "KWD", 1},
		{"46116860184273879.03", "USD", 4611686018427387903},
	} {
		amount := decimal.MustParse(row.amount)
		minorUnits, ok := minor(amount, row.currency)
		require.True(t, ok, row)
		require.Equal(t, row.minor, minorUnits)
		back, ok := exact(payment.Amount{Minor: minorUnits, Currency: row.currency})
		require.True(t, ok)
		require.Equal(t, amount, back)
	}
	for _, row := range [][2]string{
		{"0.001", "USD"},
		{"0.5", "JPY"},
		{"0.0001", "KWD"},
		{"-1", "USD"},
		{"1", "???"},
		{"1000000000000000000", "USD"},
		{"92233720368547758.08", "USD"},
	} {
		_, ok := minor(decimal.MustParse(row[0]), row[1])
		require.False(t, ok, row)
	}
}
