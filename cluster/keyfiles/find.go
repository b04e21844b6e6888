package keyfiles

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"tollgate/engine/idempotency"
)

// FindKey looks for a key, in the newest file first: of a key that was used again after it had been
// dropped, the last use counts. An error means that a page could not be read or is damaged; it
// concerns the keys on that page, and others are found.
func (s *Store) FindKey(key [16]byte) (v idempotency.Verdict, err error) {
	prefix := binary.BigEndian.Uint64(key[:])
	for found := (search{key: key, prefix: prefix}); ; {
		// A file that was closed is not in the newer view.
		if now := s.view.Load(); s.look(now, &found) {
			s.probes.Add(1)
			if found.hits > 0 {
				s.hits.Add(found.hits)
				s.reads.Add(found.reads)
			}
			return found.verdict, found.err
		}
	}
}

// search is the search for one key.
type search struct {
	key         [16]byte
	prefix      uint64
	verdict     idempotency.Verdict
	err         error
	hits, reads uint64
}

// look searches the files of a view; false if one of them was closed meanwhile.
func (s *Store) look(v *view, f *search) bool {
	f.verdict = idempotency.Verdict{Through: v.covered}
	for end := len(v.runs); end > 0; end -= asked {
		runs := v.runs[max(end-asked, 0):end]
		for let := ask(runs, f.prefix); let != 0; {
			i := bits.Len64(let) - 1
			let &^= 1 << i
			if done, gone := f.read(runs[i]); done || gone {
				return !gone
			}
		}
	}
	return true
}

// read searches one file; gone reports whether it was closed.
func (f *search) read(r *run) (done, gone bool) {
	if !r.acquire() {
		return false, true
	}
	f.hits++
	found, pages, err := r.find(f.key, f.prefix, &f.verdict)
	err = errors.Join(err, r.release())
	f.reads += uint64(pages)
	if err != nil {
		f.verdict, f.err = idempotency.Verdict{}, fmt.Errorf("look for a key: %w", err)
	}
	return found || err != nil, false
}

// asked is how many filters are asked at a time.
const asked = 64

// ask asks the filters of at most 64 runs: a bit of those that let the key through. It is what
// BinaryFuse8.Contains does for each, with no decision in between, so that the processor fetches
// what all of them need at the same time, and with one hash for all whose seed is the same, as it
// nearly always is.
func ask(runs []*run, prefix uint64) (let uint64) {
	var seed, hash uint64
	var wrong [asked]uint8 // 0: let through
	for i, r := range runs {
		f := &r.filters[prefix>>r.shift]
		if f.Seed != seed || i == 0 {
			seed = f.Seed
			hash = mix(prefix + seed)
		}
		if len(f.Fingerprints) == 0 {
			wrong[i%asked] = 1
			continue
		}
		high, _ := bits.Mul64(hash, uint64(f.SegmentCountLength))
		first := uint32(high)
		second := (first + f.SegmentLength) ^ uint32(hash>>18)&f.SegmentLengthMask
		third := (first + 2*f.SegmentLength) ^ uint32(hash)&f.SegmentLengthMask
		wrong[i%asked] = uint8(hash^hash>>32) ^
			f.Fingerprints[first] ^ f.Fingerprints[second] ^ f.Fingerprints[third]
	}
	for i := range runs {
		if wrong[i%asked] == 0 {
			let |= 1 << i
		}
	}
	return let
}

// mix is the hash of BinaryFuse8, murmur's finalizer.
func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
