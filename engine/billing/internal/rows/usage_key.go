package rows

import (
	"crypto/sha256"
	"encoding/binary"
)

// UsageKey is billing.UsageKey: the first 128 bits of SHA-256 over the environment's number, 4
// bytes, and the key.
func UsageKey(env uint32, key []byte) [16]byte {
	var room [4 + 255*4]byte
	b := binary.LittleEndian.AppendUint32(room[:0], env)
	sum := sha256.Sum256(append(b, key...))
	return [16]byte(sum[:16])
}
