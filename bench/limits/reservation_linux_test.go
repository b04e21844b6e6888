package limits_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"tollgate/bench/limits/desk"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/wire"
)

// BenchmarkReservationFloor is to be set beside BenchmarkReservation of engine/billing: as many
// customers, in entries of as many, and what is reserved is settled before more is.
func BenchmarkReservationFloor(b *testing.B) {
	const customers, entries, together = 10_000, 128, desk.Together
	b.Run("event", func(b *testing.B) { applied(b, filled(0), customers, together, 0) })
	for _, timed := range []string{"reserve", "settle"} {
		b.Run(timed, func(b *testing.B) {
			d := staffed(customers, filled(0))
			used, number := time.Duration(0), 0
			apply := func(counts bool, one func([][]byte), commands [][]byte) {
				if counts {
					b.StartTimer()
					used -= processorTime(b)
				}
				for len(commands) > 0 {
					d.Begin(nowMS)
					one(commands[:together])
					d.End()
					commands = commands[together:]
				}
				if counts {
					used += processorTime(b)
					b.StopTimer()
				}
				if len(d.Results) != together {
					b.Fatalf("%d of %d were carried out", len(d.Results), together)
				}
			}
			b.StopTimer()
			for left := b.N; left > 0; left -= entries {
				var reserves, settles [][]byte
				for range min(left, entries) * together {
					reserve, settle := pair(customerName(rand.IntN(customers)), number)
					reserves, settles = append(reserves, reserve), append(settles, settle)
					number++
				}
				apply(timed == "reserve", d.Reserve, reserves)
				apply(timed == "settle", d.Settle, settles)
			}
			b.ReportMetric(float64(used.Nanoseconds())/float64(b.N*together), "cpu-ns/unit")
		})
	}
}

// pair makes a reservation of a customer, and its settlement, as the log has them.
func pair(customer []byte, number int) (reserve, settle []byte) {
	key := fmt.Sprintf("bench-%012d", number)
	r := billing.Reserve{
		Env: 1, Key: billing.ReservationKey(1, []byte(key)), KeyText: key, Body: rand.Uint64(),
		Customer: string(customer), TTLMS: 600_000,
		Items: []billing.ReserveItem{{FeatureKey: "output-tokens", Units: decimal.FromInt(3)}},
	}
	binary.LittleEndian.PutUint64(r.ID[:], rand.Uint64())
	binary.LittleEndian.PutUint64(r.ID[8:], rand.Uint64())
	s := billing.SettleReservation{
		Env: 1, ID: r.ID, Items: []billing.SettleItem{{Units: decimal.FromInt(3)}},
	}
	return wire.Encode(nil, &r), wire.Encode(nil, &s)
}
