//go:build planted_key

package idempotency

// A planted bug that the torture must find: a snapshot forgets a key, the one in the middle of each
// of its blocks.
func init() {
	spoil = func(block []byte) {
		middle := len(block) / recordBytes / 2 * recordBytes
		clear(block[middle : middle+recordBytes])
	}
}
