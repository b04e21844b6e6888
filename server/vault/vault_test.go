package vault_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/server/vault"
)

func TestSecretsOpenWhereTheyWereSealed(t *testing.T) {
	v, err := vault.New([32]byte{1}, "a purpose")
	require.NoError(t, err)
	sealed, err := v.Seal(1, "name", "whsec_1")
	require.NoError(t, err)
	require.NotContains(t, string(sealed), "whsec_1")
	again, err := v.Seal(1, "name", "whsec_1")
	require.NoError(t, err)
	require.NotEqual(t, sealed, again, "no two look the same")
	secret, err := v.Open(1, "name", sealed)
	require.NoError(t, err)
	require.Equal(t, "whsec_1", secret)

	other, err := vault.New([32]byte{2}, "a purpose")
	require.NoError(t, err)
	elsewhere, err := vault.New([32]byte{1}, "another purpose")
	require.NoError(t, err)
	damaged := append([]byte(nil), sealed...)
	damaged[len(damaged)-1] ^= 1
	for _, open := range []func() (string, error){
		func() (string, error) { return v.Open(2, "name", sealed) },
		func() (string, error) { return v.Open(1, "other", sealed) },
		func() (string, error) { return other.Open(1, "name", sealed) },
		func() (string, error) { return elsewhere.Open(1, "name", sealed) },
		func() (string, error) { return v.Open(1, "name", damaged) },
		func() (string, error) { return v.Open(1, "name", sealed[:5]) },
	} {
		_, err = open()
		require.ErrorIs(t, err, vault.ErrSealed)
	}
}

// TestDerivedSecretsBelongToTheirPlace: the same again for one place and id, another for any other,
// and for another key or purpose.
func TestDerivedSecretsBelongToTheirPlace(t *testing.T) {
	v, err := vault.New([32]byte{1}, "a purpose")
	require.NoError(t, err)
	same, err := vault.New([32]byte{1}, "a purpose")
	require.NoError(t, err)
	other, err := vault.New([32]byte{2}, "a purpose")
	require.NoError(t, err)
	elsewhere, err := vault.New([32]byte{1}, "another purpose")
	require.NoError(t, err)
	id := [16]byte{7}
	secret := v.Derive(1, "name", id)
	require.Equal(t, secret, same.Derive(1, "name", id))
	for _, wrong := range [][32]byte{
		v.Derive(2, "name", id),
		v.Derive(1, "other", id),
		v.Derive(1, "name", [16]byte{8}),
		other.Derive(1, "name", id),
		elsewhere.Derive(1, "name", id),
		{},
	} {
		require.NotEqual(t, secret, wrong)
	}
}
