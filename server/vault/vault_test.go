package vault_test

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/server/vault"
)

func TestSecretsOpenWhereTheyWereSealed(t *testing.T) {
	v := vault.New([32]byte{1}, "a purpose")
	sealed := v.Seal(1, "name", "whsec_1")
	require.NotContains(t, string(sealed), "whsec_1")
	again := v.Seal(1, "name", "whsec_1")
	require.NotEqual(t, sealed, again, "no two look the same")
	secret, err := v.Open(1, "name", sealed)
	require.NoError(t, err)
	require.Equal(t, "whsec_1", secret)

	other := vault.New([32]byte{2}, "a purpose")
	elsewhere := vault.New([32]byte{1}, "another purpose")
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

// TestSealedBytesStay: a nonce of 12 bytes, and AES-256-GCM of the secret with its place: snapshots
// and logs hold such bytes.
func TestSealedBytesStay(t *testing.T) {
	key := hmac.New(sha256.New, append([]byte{1}, make([]byte, 31)...))
	key.Write([]byte("a purpose"))
	block, err := aes.NewCipher(key.Sum(nil))
	require.NoError(t, err)
	gcm, err := cipher.NewGCM(block)
	require.NoError(t, err)
	nonce := []byte("twelve bytes")
	sealed := gcm.Seal(nonce, nonce, []byte("whsec_1"), []byte("\x00\x00\x00\x01name"))
	secret, err := vault.New([32]byte{1}, "a purpose").Open(1, "name", sealed)
	require.NoError(t, err)
	require.Equal(t, "whsec_1", secret)
}

// TestDerivedSecretsBelongToTheirPlace: the same again for one place and id, another for any other,
// and for another key or purpose.
func TestDerivedSecretsBelongToTheirPlace(t *testing.T) {
	v := vault.New([32]byte{1}, "a purpose")
	same := vault.New([32]byte{1}, "a purpose")
	other := vault.New([32]byte{2}, "a purpose")
	elsewhere := vault.New([32]byte{1}, "another purpose")
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
