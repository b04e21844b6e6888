package billing_test

import (
	"fmt"
	"testing"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/wire"
)

// BenchmarkReservation compares an event with a reservation and its settlement, in entries of 64
// records of as many customers out of 10,000.
func BenchmarkReservation(b *testing.B) {
	const each = 64
	_, l := populated(10_000)
	number := 0
	entry := func(record func(n int) engine.Record) []engine.Record {
		records := make([]engine.Record, each)
		for i := range records {
			records[i] = record(number + i)
		}
		return records
	}
	event := func(n int) engine.Record {
		c := enginetest.Usage(l, fmt.Sprint("event-", n), customerName(n%10_000), "output-tokens", 3)
		return engine.Record{Kind: billing.KindRecordUsage, Payload: c.Seal(nil)}
	}
	reserve := func(n int) engine.Record {
		return engine.Record{Kind: billing.KindReserve, Payload: wire.Encode(nil,
			enginetest.Reservation(fmt.Sprint(n), customerName(n%10_000), "output-tokens", 3))}
	}
	settle := func(n int) engine.Record {
		return engine.Record{Kind: billing.KindSettleReservation, Payload: wire.Encode(nil,
			&billing.SettleReservation{
				Env: enginetest.Sandbox, ID: enginetest.ID(fmt.Sprint("reservation ", n)),
				Items: []billing.SettleItem{{Units: decimal.FromInt(3)}},
			})}
	}
	apply := func(b *testing.B, records []engine.Record) {
		results, err := l.Apply(records...)
		if err != nil {
			b.Fatal(err)
		}
		for _, r := range results {
			if r.Outcome != engine.OutcomeDone && r.Outcome != engine.OutcomeLimitReached {
				b.Fatal(r.Outcome)
			}
		}
	}
	b.Run("event", func(b *testing.B) {
		for n := 0; n < b.N; n += each {
			b.StopTimer()
			records := entry(event)
			b.StartTimer()
			apply(b, records)
			number += each
		}
	})
	for _, timed := range []string{"reserve", "settle"} {
		b.Run(timed, func(b *testing.B) {
			b.StopTimer()
			for n := 0; n < b.N; n += each {
				held, done := entry(reserve), entry(settle)
				if timed == "reserve" {
					b.StartTimer()
				}
				apply(b, held)
				b.StopTimer()
				if timed == "settle" {
					b.StartTimer()
				}
				apply(b, done)
				b.StopTimer()
				number += each
			}
		})
	}
}
