package rows

import "math"

// Never is the due instant of a row with nothing due.
const Never = math.MaxInt64

// Dues are rows by their next due instant: a binary heap by (instant, row), so that every replica
// pops it in one order, whatever its layout. Whoever changes it has the lock of what it is part of.
// It is not state: each record has its own instant. Its memory grows by chunks: doubling a slice of
// a million rows would stop Apply while it is copied.
type Dues struct{ Heap Chunks[PackedDue] }

// Due is a row and its next instant.
type Due struct {
	At  int64
	Row uint32
}

// PackedDue is a Due without padding.
type PackedDue struct {
	high     int32
	low, Row uint32
}

// Packed returns d as a heap holds it.
func (d Due) Packed() PackedDue { return PackedDue{int32(d.At >> 32), uint32(d.At), d.Row} }

// Due unpacks d.
func (d PackedDue) Due() Due { return Due{int64(d.high)<<32 | int64(d.low), d.Row} }

// At returns the due at a place of the heap.
func (q *Dues) At(i int) Due { return q.Heap.At(i).Due() }

func (d Due) before(o Due) bool { return d.At < o.At || d.At == o.At && d.Row < o.Row }

// Until returns the last instant whose events come before those of another row that follows d.
func (d Due) Until(o Due) int64 {
	if o.Row < d.Row {
		return o.At - 1
	}
	return o.At
}

// First returns the earliest due; its instant is Never if there is none.
func (q *Dues) First() Due {
	if q.Heap.N == 0 {
		return Due{At: Never}
	}
	return q.At(0)
}

// Two returns the earliest due and the one after it; Never if there is none.
func (q *Dues) Two() (first, second Due) {
	first, second = q.First(), Due{At: Never}
	for i := 1; i <= min(2, q.Heap.N-1); i++ {
		if d := q.At(i); i == 1 || d.before(second) {
			second = d
		}
	}
	return first, second
}

// Set moves a row to an instant; Never removes it. places has each row's place in its heap, counted
// from 1.
func (q *Dues) Set(places *Chunks[uint32], row uint32, at int64) {
	for places.N <= int(row) {
		places.push(0)
	}
	i := int(*places.At(int(row))) - 1
	switch {
	case i < 0 && at == Never:
		return
	case i < 0:
		q.Heap.push(Due{at, row}.Packed())
		q.up(places, q.Heap.N-1)
		return
	case at == Never:
		q.Heap.N--
		moved := *q.Heap.At(q.Heap.N)
		*places.At(int(row)) = 0
		if i == q.Heap.N {
			return
		}
		*q.Heap.At(i) = moved
	default:
		*q.Heap.At(i) = Due{at, row}.Packed()
	}
	q.down(places, q.up(places, i))
}

func (q *Dues) up(places *Chunks[uint32], i int) int {
	d := q.At(i)
	for i > 0 {
		parent := q.At((i - 1) / 2)
		if !d.before(parent) {
			break
		}
		q.put(places, i, parent)
		i = (i - 1) / 2
	}
	q.put(places, i, d)
	return i
}

func (q *Dues) down(places *Chunks[uint32], i int) {
	d := q.At(i)
	for {
		child := 2*i + 1
		if child >= q.Heap.N {
			break
		}
		if child+1 < q.Heap.N && q.At(child+1).before(q.At(child)) {
			child++
		}
		if !q.At(child).before(d) {
			break
		}
		q.put(places, i, q.At(child))
		i = child
	}
	q.put(places, i, d)
}

func (q *Dues) put(places *Chunks[uint32], i int, d Due) {
	*q.Heap.At(i) = d.Packed()
	*places.At(int(d.Row)) = uint32(i) + 1
}

// Chunks is a list that grows without moving more than a chunk of its elements.
type Chunks[T any] struct {
	list [][]T
	N    int
}

// chunkRows is how many elements a chunk has; a power of two.
const chunkRows = 4096

// At returns element i, counted from 0.
func (c *Chunks[T]) At(i int) *T { return &c.list[i/chunkRows][i%chunkRows] }

// push appends v. The first chunk grows like any slice, so that a short list stays small.
func (c *Chunks[T]) push(v T) {
	k, i := c.N/chunkRows, c.N%chunkRows
	if k == len(c.list) {
		var fresh []T
		if k > 0 {
			fresh = make([]T, 0, chunkRows)
		}
		c.list = append(c.list, fresh)
	}
	if i == len(c.list[k]) {
		c.list[k] = append(c.list[k], v)
	} else {
		c.list[k][i] = v
	}
	c.N++
}

// Soonest visits the dues up to an instant, earliest first, until visit returns false.
func (q *Dues) Soonest(now int64, visit func(row uint32) bool) {
	var front Dues // places in the heap, by their instants
	var places Chunks[uint32]
	push := func(i int) {
		if i < q.Heap.N && q.At(i).At <= now {
			front.Set(&places, uint32(i), q.At(i).At)
		}
	}
	for push(0); front.Heap.N > 0; {
		i := int(front.First().Row)
		front.Set(&places, uint32(i), Never)
		if !visit(q.Heap.At(i).Row) {
			return
		}
		push(2*i + 1)
		push(2*i + 2)
	}
}
