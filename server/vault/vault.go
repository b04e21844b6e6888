// Package vault seals secrets before they enter the log: log, snapshots, backups and other nodes'
// disks hold ciphertext. The key comes from the node's configuration, which is not in the log.
// Reading the secrets takes both the configuration and a snapshot.
package vault

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
)

// ErrSealed is the error of a secret that was sealed under another key, or is damaged.
var ErrSealed = errors.New("vault: a stored secret does not open: " +
	"it was sealed under another key; set it again")

// Vault seals and opens secrets: AES-256-GCM, a random nonce in front. The environment and the
// secret's name are bound in, so that one sealed for one place opens nowhere else. Safe for
// concurrent use.
type Vault struct {
	aead cipher.AEAD
	seed []byte // what Derive begins with
}

// New makes the vault of a purpose. The sealing key is derived from the given one, so that the
// given key is not used directly, and one purpose's secrets do not open for another.
func New(key [32]byte, purpose string) *Vault {
	h := hmac.New(sha256.New, key[:])
	h.Write([]byte(purpose))
	block, err := aes.NewCipher(h.Sum(nil))
	if err != nil {
		panic("vault: AES rejected a 32-byte key: " + err.Error())
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic("vault: AES has no GCM: " + err.Error())
	}
	d := hmac.New(sha256.New, key[:])
	d.Write([]byte(purpose + " derived"))
	return &Vault{aead, d.Sum(nil)}
}

// Derive makes 32 bytes that only holders of the key can make, and always the same for one place
// and id: a secret that can be had again without being stored.
func (v *Vault) Derive(env uint32, name string, id [16]byte) (secret [32]byte) {
	h := hmac.New(sha256.New, v.seed)
	h.Write(id[:])
	h.Write(place(env, name))
	return [32]byte(h.Sum(secret[:0]))
}

func place(env uint32, name string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, env), name...)
}

// Seal encrypts a secret for one place: an environment and a name within it.
func (v *Vault) Seal(env uint32, name, secret string) []byte {
	return v.aead.Seal(nil, nil, []byte(secret), place(env, name))
}

// Open decrypts what Seal made for the same place. Its error is ErrSealed.
func (v *Vault) Open(env uint32, name string, sealed []byte) (string, error) {
	secret, err := v.aead.Open(nil, nil, sealed, place(env, name))
	if err != nil {
		return "", ErrSealed
	}
	return string(secret), nil
}
