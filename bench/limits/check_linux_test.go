package limits_test

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"sync"
	"testing"

	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/prefetch"
)

// customer is all that a check needs of a customer, in two adjacent lines.
type customer struct {
	env, version uint32
	due          int64
	length       uint8
	external     [39]byte
	used         [3]decimal.Short
	subscription [16]byte
	_            [32]byte
}

// checks is a state of customers, found by a table of slots that are half full: 32 bits of a hash,
// and the row.
type checks struct {
	seed      maphash.Seed
	slots     []uint64
	customers []customer
	features  map[string]uint32
	limits    []decimal.Decimal // by version and feature
	// locks are readers' and the writer's, by row.
	locks [512]struct {
		sync.RWMutex
		_ [40]byte
	}
}

func newChecks(n int) *checks {
	c := &checks{
		seed: maphash.MakeSeed(), slots: make([]uint64, 2*n), customers: make([]customer, n+1),
		features: map[string]uint32{"requests": 1, "input-tokens": 2, "output-tokens": 3},
		limits:   []decimal.Decimal{{}, {}, {}, decimal.FromInt(5000)},
	}
	for i := range n {
		name := customerName(i)
		v := &c.customers[i+1]
		*v = customer{env: 1, due: 1 << 60, length: uint8(len(name)), subscription: [16]byte{byte(i)}}
		copy(v.external[:], name)
		hash := c.hash(name)
		at := c.place(hash)
		for c.slots[at] != 0 {
			at = (at + 1) % len(c.slots)
		}
		c.slots[at] = hash<<32 | uint64(i+1)
	}
	return c
}

func customerName(i int) []byte { return fmt.Appendf(nil, "customer-%08d", i) }

func (c *checks) hash(name []byte) uint64 { return maphash.Bytes(c.seed, name) }

func (c *checks) place(hash uint64) int { return int(hash >> 32 * uint64(len(c.slots)) >> 32) }

func (c *checks) row(hash uint64) uint32 {
	for at := c.place(hash); c.slots[at] != 0; at = (at + 1) % len(c.slots) {
		if c.slots[at]>>32 == hash&(1<<32-1) {
			return uint32(c.slots[at])
		}
	}
	return 0
}

// decide is a check of a feature with one subscription.
func (c *checks) decide(hash uint64, name, feature []byte, now int64, d *billing.Decision) {
	d.Ruling = billing.Ruling{LogIndex: 7, EnvironmentTime: now}
	row := c.row(hash)
	v := &c.customers[row]
	if v.env != 1 || string(v.external[:v.length]) != string(name) {
		panic("another customer under 63 bits of a hash")
	}
	d.CustomerRow, d.FeatureNumber = row, c.features[string(feature)]
	if v.due <= now {
		return
	}
	d.SubscriptionID, d.HasUsage, d.HasLimit = v.subscription, true, true
	d.Used, d.Limit = v.used[d.FeatureNumber-1].Decimal(), c.limits[v.version*3+d.FeatureNumber]
	d.Remaining, _ = d.Limit.Sub(d.Used)
	if d.Used.Less(d.Limit) {
		d.Reason = billing.ReasonAllowed
	}
}

// BenchmarkCheckFloor draws customers at random, as BenchmarkCheck and BenchmarkCheckTogether of
// engine/billing do.
func BenchmarkCheckFloor(b *testing.B) {
	feature := []byte("output-tokens")
	for _, n := range []int{1_000, 1_000_000} {
		c := newChecks(n)
		names := make([][]byte, 1<<16)
		for i := range names {
			names[i] = customerName(rand.IntN(n))
		}
		var d billing.Decision
		b.Run(fmt.Sprintf("%d/alone", n), func(b *testing.B) {
			stop := perUnit(b, 1)
			for i := range b.N {
				name := names[i%len(names)]
				c.decide(c.hash(name), name, feature, int64(i), &d)
			}
			stop()
		})
		b.Run(fmt.Sprintf("%d/alone-locked", n), func(b *testing.B) {
			stop := perUnit(b, 1)
			for i := range b.N {
				name := names[i%len(names)]
				hash := c.hash(name)
				lock := &c.locks[c.row(hash)%uint32(len(c.locks))]
				lock.RLock()
				c.decide(hash, name, feature, int64(i), &d)
				lock.RUnlock()
			}
			stop()
		})
		for _, together := range []int{16, 64} {
			b.Run(fmt.Sprintf("%d/%d-together", n, together), func(b *testing.B) {
				hashes, lines := make([]uint64, together), make([]prefetch.Address, 0, 2*together)
				stop := perUnit(b, together)
				for i := range b.N {
					asked := names[i*together%len(names):][:together]
					lines = lines[:0]
					for j, name := range asked {
						hashes[j] = c.hash(name)
						lines = append(lines, prefetch.Of(&c.slots[c.place(hashes[j])]))
					}
					prefetch.Lines(lines)
					lines = lines[:0]
					for _, hash := range hashes {
						v := &c.customers[c.row(hash)]
						lines = append(lines, prefetch.Of(v), prefetch.Of(&v.used))
					}
					prefetch.Lines(lines)
					for j, name := range asked {
						c.decide(hashes[j], name, feature, int64(i), &d)
					}
				}
				stop()
			})
		}
	}
}
