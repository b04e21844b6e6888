package rows

// Queue is Dues for rows most of which come in the order of their instants, since they live for one
// of a few times: those stand in lines, where to add and to remove one takes no search. The others
// are in a heap. It pops rows in the order of Dues.
type Queue struct {
	heap  Dues
	lines [queueLines]dueLine
	first Due
	n     int
}

const (
	queueLines = 4
	// A place in a line has this mark, the line's number, and the number of the due modulo lineDues.
	inLine   = 1 << 31
	lineBits = 29
	lineDues = 1 << lineBits
	// lineChunk is how many dues of a line share an allocation.
	lineChunk = 256
)

// dueLine has dues in order. One that was removed stays, without a row, until it is the first.
type dueLine struct {
	chunks   []*[lineChunk]PackedDue
	from, to uint32 // numbers of the first one and of the next one, modulo lineDues
	live     uint32
	last     Due
}

// Len is the number of rows.
func (q *Queue) Len() int { return q.n }

// First returns the earliest due; its instant is Never if there is none.
func (q *Queue) First() Due {
	if q.n == 0 {
		return Due{At: Never}
	}
	return q.first
}

// Set moves a row to an instant; Never removes it. places has each row's place in its queue.
func (q *Queue) Set(places *Chunks[uint32], row uint32, at int64) {
	for places.N <= int(row) {
		places.push(0)
	}
	before, gone := *places.At(int(row)), false
	if before != 0 {
		q.n--
		gone = q.first.Row == row
	}
	switch {
	case before&inLine != 0:
		q.lines[before>>lineBits%queueLines].remove(before % lineDues)
		*places.At(int(row)) = 0
	case before != 0:
		q.heap.Set(places, row, Never)
	}
	d := Due{at, row}
	if at != Never {
		q.add(places, d)
		if q.n++; q.n == 1 || !gone && d.before(q.first) {
			q.first = d
		}
	}
	if gone {
		q.find()
	}
}

// find notes which one is the first.
func (q *Queue) find() {
	q.first = q.heap.First()
	for i := range q.lines {
		if l := &q.lines[i]; l.live > 0 {
			if d := l.at(l.from).Due(); d.before(q.first) {
				q.first = d
			}
		}
	}
}

// add puts a due at the end of the line whose last one is nearest before it.
func (q *Queue) add(places *Chunks[uint32], d Due) {
	best := -1
	for i := range q.lines {
		l := &q.lines[i]
		switch {
		case l.live == 0:
			if best < 0 {
				best = i
			}
		case l.last.before(d) && !l.crowded():
			if best < 0 || q.lines[best].live == 0 || q.lines[best].last.before(l.last) {
				best = i
			}
		}
	}
	if best < 0 {
		q.heap.Set(places, d.Row, d.At)
		return
	}
	*places.At(int(d.Row)) = inLine | uint32(best)<<lineBits | q.lines[best].push(d)
}

// crowded reports whether most of a long line was removed.
func (l *dueLine) crowded() bool { return (l.to-l.from)%lineDues >= 4*l.live+16*lineChunk }

// at is the due of a number.
func (l *dueLine) at(n uint32) *PackedDue {
	n = (n-l.from)%lineDues + l.from%lineChunk
	return &l.chunks[n/lineChunk][n%lineChunk]
}

// push adds the last due, and returns its number.
func (l *dueLine) push(d Due) (n uint32) {
	n = l.to
	if at := (n-l.from)%lineDues + l.from%lineChunk; int(at/lineChunk) == len(l.chunks) {
		l.chunks = append(l.chunks, new([lineChunk]PackedDue))
	}
	*l.at(n) = d.Packed()
	l.to, l.last = (n+1)%lineDues, d
	l.live++
	return n
}

// remove takes a due out, and with it those before it that were taken out, if it was the first.
func (l *dueLine) remove(n uint32) {
	l.at(n).Row = 0
	if l.live--; l.live == 0 {
		l.chunks, l.from, l.to = l.chunks[:min(1, len(l.chunks))], 0, 0
		return
	}
	for l.at(l.from).Row == 0 {
		if l.from = (l.from + 1) % lineDues; l.from%lineChunk == 0 {
			l.chunks[0] = nil
			l.chunks = l.chunks[1:]
		}
	}
}
