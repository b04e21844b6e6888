package payments

import (
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/engine/decimal"
	"tollgate/server/provider/payment"
)

// TestSecretsOpenWhereTheyWereSealed: a secret that is carried to another environment, under
// another name, to a node with another key, or that was damaged opens nowhere.
func TestSecretsOpenWhereTheyWereSealed(t *testing.T) {
	v, err := newVault([32]byte{1})
	require.NoError(t, err)
	sealed, err := v.seal(1, "secretKey", "sk_test_hidden")
	require.NoError(t, err)
	require.NotContains(t, string(sealed), "hidden")
	again, err := v.seal(1, "secretKey", "sk_test_hidden")
	require.NoError(t, err)
	require.NotEqual(t, sealed, again, "the same secret is not recognised by its bytes")
	secret, err := v.open(1, "secretKey", sealed)
	require.NoError(t, err)
	require.Equal(t, "sk_test_hidden", secret)

	refused := func(v *vault, env uint32, name string, sealed []byte) {
		t.Helper()
		_, err := v.open(env, name, sealed)
		require.ErrorIs(t, err, errSealed)
		require.NotContains(t, err.Error(), "hidden")
	}
	refused(v, 2, "secretKey", sealed)
	refused(v, 1, "webhookSecret", sealed)
	for i := range sealed {
		damaged := append([]byte(nil), sealed...)
		damaged[i] ^= 1
		refused(v, 1, "secretKey", damaged)
		refused(v, 1, "secretKey", sealed[:i])
	}
	other, err := newVault([32]byte{2})
	require.NoError(t, err)
	refused(other, 1, "secretKey", sealed)
}

// TestAmountsThereAndBack: minor units are exact, in currencies with none, two and three decimals;
// what is no whole number of them is not sent to a provider.
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
