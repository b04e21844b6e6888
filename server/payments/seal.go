package payments

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
)

// errSealed is the error of a secret that was sealed under another key, or damaged.
var errSealed = errors.New("payments: a stored secret does not open: " +
	"it was sealed under another key; set the payment provider again")

// vault seals secrets for the log: AES-256-GCM, a random nonce in front. The environment and the
// secret's name are bound in, so that one sealed for one place opens nowhere else.
type vault struct{ aead cipher.AEAD }

// newVault derives the sealing key, so that what it is made of is used for nothing else directly.
func newVault(key [32]byte) (*vault, error) {
	h := hmac.New(sha256.New, key[:])
	h.Write([]byte("tollgate payment secrets"))
	block, err := aes.NewCipher(h.Sum(nil))
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	return &vault{aead}, nil
}

func place(env uint32, name string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, env), name...)
}

func (v *vault) seal(env uint32, name, secret string) ([]byte, error) {
	nonce := make([]byte, v.aead.NonceSize())
	if _, err := rand.Read(nonce); err != nil {
		return nil, err
	}
	return v.aead.Seal(nonce, nonce, []byte(secret), place(env, name)), nil
}

func (v *vault) open(env uint32, name string, sealed []byte) (string, error) {
	n := v.aead.NonceSize()
	if len(sealed) < n {
		return "", errSealed
	}
	secret, err := v.aead.Open(nil, sealed[:n], sealed[n:], place(env, name))
	if err != nil {
		return "", errSealed
	}
	return string(secret), nil
}
