package billing_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/wire"
)

// BenchmarkReservation compares an event with a reservation and its settlement, in entries of 64
// records of customers at random out of 10,000. What is reserved is settled before more is.
func BenchmarkReservation(b *testing.B) {
	const each, customers = 64, 10_000
	m, l := populated(customers)
	number := 0
	customer := func() string { return customerName(rand.IntN(customers)) }
	entries := func(n int, record func(i int) engine.Record) (all [][]byte) {
		for at := 0; at < n; at += each {
			var records []engine.Record
			for i := at; i < min(n, at+each); i++ {
				records = append(records, record(number+i))
			}
			all = append(all, l.Entry(records...))
		}
		return all
	}
	event := func(n int) engine.Record {
		c := enginetest.Usage(l, fmt.Sprint("event-", n), customer(), "output-tokens", 3)
		return engine.Record{Kind: billing.KindRecordUsage, Payload: c.Seal(nil)}
	}
	reserve := func(n int) engine.Record {
		c := enginetest.Reservation(fmt.Sprint(n), customer(), "output-tokens", 3)
		c.Body = rand.Uint64() // a hash, as servers send it
		return engine.Record{Kind: billing.KindReserve, Payload: wire.Encode(nil, c)}
	}
	settle := func(n int) engine.Record {
		return engine.Record{Kind: billing.KindSettleReservation, Payload: wire.Encode(nil,
			&billing.SettleReservation{
				Env: enginetest.Sandbox, ID: enginetest.ID(fmt.Sprint("reservation ", n)),
				Items: []billing.SettleItem{{Units: decimal.FromInt(3)}},
				Own: billing.FirstEventKey(enginetest.Sandbox,
					enginetest.ID(fmt.Sprint("reservation ", n))),
			})}
	}
	for _, timed := range []string{"event", "reserve", "settle"} {
		b.Run(timed, func(b *testing.B) {
			b.StopTimer()
			used := time.Duration(0)
			apply := func(entries [][]byte, counts bool) {
				if counts {
					used -= processorTime(b)
					b.StartTimer()
				}
				applyEntries(b, m, l, entries)
				if counts {
					b.StopTimer()
					used += processorTime(b)
				}
			}
			for left := b.N; left > 0; {
				n := min(left, 128*each)
				if timed == "event" {
					apply(entries(n, event), true)
				} else {
					held, done := entries(n, reserve), entries(n, settle)
					apply(held, timed == "reserve")
					apply(done, timed == "settle")
				}
				number, left = number+n, left-n
			}
			b.ReportMetric(float64(used.Nanoseconds())/float64(b.N), "cpu-ns/op")
		})
	}
}

// BenchmarkReservationMemory prints the bytes that a reservation whose key is a UUID takes without
// its items, and those of an item more, with all indexes; open, and once it was released.
func BenchmarkReservationMemory(b *testing.B) {
	const many, customers, each = 200_000, 10_000, 256
	features := [...]string{"requests", "input-tokens", "output-tokens"}
	measure := func(items int) (open, closed float64) {
		m, l := populated(customers)
		reserve := func(n int) engine.Record {
			c := enginetest.Reservation(fmt.Sprintf("018f6b2c-7d1e-7000-8000-%012d", n),
				customerName(n%customers), features[0], 1)
			c.Items, c.Body = c.Items[:0], rand.Uint64()
			for _, key := range features[:items] {
				c.Items = append(c.Items, billing.ReserveItem{FeatureKey: key, Units: decimal.FromInt(1)})
			}
			return engine.Record{Kind: billing.KindReserve, Payload: wire.Encode(nil, c)}
		}
		release := func(n int) engine.Record {
			id := enginetest.ID(fmt.Sprintf("reservation 018f6b2c-7d1e-7000-8000-%012d", n))
			return engine.Record{
				Kind:    billing.KindReleaseReservation,
				Payload: wire.Encode(nil, &billing.ReleaseReservation{Env: enginetest.Sandbox, ID: id}),
			}
		}
		apply := func(record func(n int) engine.Record) {
			for at := 0; at < many; at += each {
				var records []engine.Record
				for n := at; n < min(many, at+each); n++ {
					records = append(records, record(n))
				}
				results, err := l.Apply(records...)
				if err != nil {
					b.Fatal(err)
				}
				for _, r := range results {
					if r.Outcome != engine.OutcomeDone {
						b.Fatal(r.Outcome)
					}
				}
			}
		}
		before := heap()
		apply(reserve)
		open = (float64(heap()) - float64(before)) / many
		apply(release)
		closed = (float64(heap()) - float64(before)) / many
		runtime.KeepAlive(m)
		return open, closed
	}
	open, closed := measure(1)
	openOf, closedOf := measure(len(features))
	for b.Loop() {
		continue
	}
	more := float64(len(features) - 1)
	b.ReportMetric(open-(openOf-open)/more, "open-B/hold")
	b.ReportMetric((openOf-open)/more, "open-B/item")
	b.ReportMetric(closed-(closedOf-closed)/more, "closed-B/hold")
	b.ReportMetric((closedOf-closed)/more, "closed-B/item")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkBudgetedPairs reserves and settles in entries of 64 of each, as clients do over HTTP:
// each customer has a budget of its own, with a limit of units. ns/op is for a pair.
func BenchmarkBudgetedPairs(b *testing.B) {
	const each = 64
	units := decimal.FromBits(0, 1) // so that no limit is reached
	for _, customers := range []int{1, 200} {
		b.Run(fmt.Sprint("customers=", customers), func(b *testing.B) {
			m, l := populated(customers)
			for i := range customers {
				l.DoPayload(billing.KindPutBudget, wire.Encode(nil, &billing.PutBudget{
					Env: enginetest.Sandbox, Key: customerName(i), Name: "own", Customer: customerName(i),
					Limits: []billing.LimitDocument{{
						Of: billing.MeasureUnits, Feature: "output-tokens", Limit: decimal.FromInt(1e12),
						Window: billing.WindowMonth,
					}},
				}))
			}
			var entries [][]byte
			for n := 0; n < b.N; n += each {
				var reserves, settles []engine.Record
				for i := n; i < n+each; i++ {
					name := fmt.Sprint(customers, "-", i)
					c := enginetest.Reservation(name, customerName(i%customers), "output-tokens", 1)
					c.Items[0].Units, c.Body = units, rand.Uint64()
					reserves = append(reserves, engine.Record{
						Kind: billing.KindReserve, Payload: wire.Encode(nil, c),
					})
					settles = append(settles, engine.Record{
						Kind: billing.KindSettleReservation,
						Payload: wire.Encode(nil, &billing.SettleReservation{
							Env: enginetest.Sandbox, ID: enginetest.ID("reservation " + name),
							Items: []billing.SettleItem{{Units: units}},
						}),
					})
				}
				entries = append(entries, l.Entry(reserves...), l.Entry(settles...))
			}
			b.ResetTimer()
			used := processorTime(b)
			applyEntries(b, m, l, entries)
			used = processorTime(b) - used
			b.ReportMetric(float64(used.Nanoseconds())/float64(b.N), "cpu-ns/op")
		})
	}
}
