package page

import (
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"
)

// benchRows is the size at which the costs are stated.
const benchRows = 10_000_000

// filled is shared by the benchmarks: making ten million rows takes longer than measuring them.
var filled *Table[account]

func tenMillion(b *testing.B) *Table[account] {
	b.Helper()
	if filled == nil {
		filled = NewTable(NewStore(), 1, accountCodec())
		for range benchRows {
			_, rec := filled.Append()
			rec.Balance = 1
		}
	}
	b.ResetTimer()
	return filled
}

func BenchmarkTableWrite(b *testing.B) {
	t, rng := tenMillion(b), rand.New(rand.NewPCG(1, 2))
	for b.Loop() {
		t.Write(rng.Uint32N(benchRows)+1).Balance++
	}
	b.ReportMetric(float64(t.Bytes())/benchRows, "B/row")
}

func BenchmarkTableRead(b *testing.B) {
	t, rng := tenMillion(b), rand.New(rand.NewPCG(1, 2))
	var sum int64
	for b.Loop() {
		sum += t.Read(rng.Uint32N(benchRows) + 1).Balance
	}
	runtime.KeepAlive(sum)
}

func BenchmarkBegin(b *testing.B) {
	t := tenMillion(b)
	for b.Loop() {
		t.store.Begin().Release()
	}
}

func BenchmarkHashNext(b *testing.B) {
	t := tenMillion(b)
	h := uint64(0)
	for b.Loop() {
		h = t.store.HashNext(h)
	}
}

// BenchmarkSnapshotBesideWrites writes whole snapshots while another goroutine writes random rows
// at full speed. It reports the writer's turns of 1000 writes: the mean cost of a write, and the
// 99th percentile and the longest turn.
func BenchmarkSnapshotBesideWrites(b *testing.B) {
	t := tenMillion(b)
	var turns []time.Duration
	var total time.Duration
	for b.Loop() {
		sn := t.store.Begin()
		done := make(chan error)
		go func() {
			_, err := sn.WriteTo(io.Discard)
			done <- err
		}()
		rng := rand.New(rand.NewPCG(5, 6))
		for running := true; running; {
			begin := time.Now()
			for range 1000 {
				t.Write(rng.Uint32N(benchRows)+1).Balance++
			}
			turns = append(turns, time.Since(begin))
			total += turns[len(turns)-1]
			select {
			case err := <-done:
				if err != nil {
					b.Fatal(err)
				}
				running = false
			default:
			}
		}
		sn.Release()
	}
	slices.Sort(turns)
	b.ReportMetric(float64(total)/float64(len(turns))/1000, "ns/write")
	b.ReportMetric(turns[len(turns)*99/100].Seconds()*1e3, "ms-p99/1000")
	b.ReportMetric(turns[len(turns)-1].Seconds()*1e3, "ms-max/1000")
}

func BenchmarkIndex(b *testing.B) {
	keys := make([]uint64, benchRows)
	rng := rand.New(rand.NewPCG(7, 8))
	for i := range keys {
		keys[i] = rng.Uint64()
	}
	x := NewIndex()
	var longest time.Duration
	begin := time.Now()
	for i := 0; i < benchRows; i += 1000 {
		turn := time.Now()
		for j := i; j < i+1000; j++ {
			x.Insert(keys[j], uint32(j+1))
		}
		longest = max(longest, time.Since(turn))
	}
	perInsert := time.Since(begin).Seconds() * 1e9 / benchRows
	always := func(uint32) bool { return true }
	b.Run(fmt.Sprintf("hit-%d", benchRows), func(b *testing.B) {
		for b.Loop() {
			if x.Find(keys[rng.Uint32N(benchRows)], always) == 0 {
				b.Fatal("not found")
			}
		}
		b.ReportMetric(perInsert, "ns/insert")
		b.ReportMetric(longest.Seconds()*1e3, "ms-max/1000-inserts")
		b.ReportMetric(float64(x.Bytes())/benchRows, "B/row")
	})
	b.Run(fmt.Sprintf("miss-%d", benchRows), func(b *testing.B) {
		found := 0
		for b.Loop() {
			if x.Find(rng.Uint64(), func(uint32) bool { return false }) != 0 {
				found++
			}
		}
		runtime.KeepAlive(found)
	})
}
