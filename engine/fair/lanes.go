// Package fair shares bounded resources among flows: Lanes decides which waiting work is next,
// Share how much each flow may hold. It has no clock and no locks; callers bring them. See
// DESIGN.md.
package fair

// Flow is the owner of a piece of work. Flow 0 is the cluster itself.
type Flow uint32

// Quantum is how many bytes a flow of weight 1 may send in each round.
const Quantum = 4 << 10

// OwnWeight is the weight of the cluster's own work.
const OwnWeight = 8

// Lanes hold waiting work in one lane for each flow, and take from them in turn: deficit round
// robin, so that a flow gets bytes in proportion to its weight, however large its pieces of work
// are. A lane's own work stays in order. The zero value is empty. C is a piece of work.
type Lanes[C any] struct {
	byFlow map[Flow]*Lane[C]
	first  *Lane[C] // next to be served; the others follow in a circle
	spare  *Lane[C] // of flows without work, linked by next
}

// Lane is the waiting work of one flow.
type Lane[C any] struct {
	flow       Flow
	weight     int
	work       []C
	from       int // work before it is done
	deficit    int
	granted    bool // its quantum of this round is in deficit
	next, prev *Lane[C]
}

// Push appends a piece of work to its flow's lane. The weight counts from the lane's next round on;
// below 1 it is 1.
func (l *Lanes[C]) Push(f Flow, weight int, c C) {
	lane := l.byFlow[f]
	if lane == nil {
		lane = l.open(f)
	}
	lane.weight = max(1, weight)
	if lane.from > 0 && len(lane.work) == cap(lane.work) {
		n := copy(lane.work, lane.work[lane.from:])
		clear(lane.work[n:])
		lane.work, lane.from = lane.work[:n], 0
	}
	lane.work = append(lane.work, c)
}

// open puts an empty lane behind all others.
func (l *Lanes[C]) open(f Flow) *Lane[C] {
	lane := l.spare
	if lane == nil {
		lane = new(Lane[C])
	} else {
		l.spare, lane.next = lane.next, nil
	}
	lane.flow = f
	l.insert(lane)
	return lane
}

func (l *Lanes[C]) insert(lane *Lane[C]) {
	if l.byFlow == nil {
		l.byFlow = make(map[Flow]*Lane[C])
	}
	l.byFlow[lane.flow] = lane
	if l.first == nil {
		l.first, lane.next, lane.prev = lane, lane, lane
		return
	}
	lane.next, lane.prev = l.first, l.first.prev
	lane.prev.next, lane.next.prev = lane, lane
}

func (l *Lanes[C]) remove(lane *Lane[C]) {
	delete(l.byFlow, lane.flow)
	lane.next.prev, lane.prev.next = lane.prev, lane.next
	if l.first == lane {
		l.first = lane.next
	}
	if l.first == lane {
		l.first = nil
	}
	lane.next, lane.prev = nil, nil
}

// maxSpareWork is the capacity that an empty lane keeps.
const maxSpareWork = 64

// drop removes an empty lane, and keeps its memory for another.
func (l *Lanes[C]) drop(lane *Lane[C]) {
	l.remove(lane)
	work := lane.work[:0]
	if cap(work) > maxSpareWork {
		work = nil
	}
	*lane = Lane[C]{work: work, next: l.spare}
	l.spare = lane
}

// Empty reports whether no work waits.
func (l *Lanes[C]) Empty() bool { return l.first == nil }

// Waits reports whether some work of the flow waits.
func (l *Lanes[C]) Waits(f Flow) bool { return l.byFlow[f] != nil }

// Cut takes up to room bytes from a piece of work. It returns the bytes taken and whether the piece
// is finished; a piece that cannot be cut to fit is left for later.
type Cut[C any] func(c C, room int) (took int, done bool)

// Fill takes work from the lanes in turn until nothing is left, or until the next piece does not
// fit into the rest of room; its lane stays first. A piece larger than any room would stay forever:
// there must be none.
func (l *Lanes[C]) Fill(room int, cut Cut[C]) {
	for l.first != nil && room > 0 {
		lane := l.first
		if !lane.granted {
			lane.granted = true
			lane.deficit += Quantum * lane.weight
		}
		if lane.next == lane { // no other lane waits
			lane.deficit = max(lane.deficit, room)
		}
		full := lane.deficit >= room // the rest does not fit for lack of room
		took, left := lane.take(min(lane.deficit, room), cut)
		lane.deficit -= took
		switch {
		case !left:
			l.drop(lane)
		case full:
			return
		default:
			lane.granted, l.first = false, lane.next
		}
		room -= took
	}
}

// FillOne is Fill from the first lane only, which then moves to the end. It returns the lane's
// flow.
func (l *Lanes[C]) FillOne(room int, cut Cut[C]) (f Flow) {
	lane := l.first
	if lane == nil {
		return 0
	}
	f = lane.flow
	if _, left := lane.take(room, cut); !left {
		l.drop(lane)
	} else {
		l.first = lane.next
	}
	return f
}

// Len is how many flows have waiting work.
func (l *Lanes[C]) Len() int { return len(l.byFlow) }

// Next returns the flow to be served next; some work must wait.
func (l *Lanes[C]) Next() Flow { return l.first.flow }

// Skip gives the turn to the next lane.
func (l *Lanes[C]) Skip() {
	if l.first != nil {
		l.first.granted, l.first = false, l.first.next
	}
}

// take cuts from a lane the work that fits; left reports whether any remains.
func (lane *Lane[C]) take(room int, cut Cut[C]) (took int, left bool) {
	for lane.from < len(lane.work) {
		n, done := cut(lane.work[lane.from], room-took)
		took += n
		if !done {
			return took, true
		}
		var none C
		lane.work[lane.from] = none
		lane.from++
	}
	return took, false
}

// MoveTo hands a flow's lane over to other lanes, where it waits behind all others.
func (l *Lanes[C]) MoveTo(to *Lanes[C], f Flow) {
	lane := l.byFlow[f]
	if lane == nil {
		return
	}
	l.remove(lane)
	if other := to.byFlow[f]; other != nil {
		other.work = append(other.work, lane.work[lane.from:]...)
		return
	}
	lane.deficit, lane.granted = 0, false
	to.insert(lane)
}

// Each hands each piece of work to look, which must not change the lanes.
func (l *Lanes[C]) Each(look func(C)) {
	for lane := l.first; lane != nil; {
		for _, c := range lane.work[lane.from:] {
			look(c)
		}
		if lane = lane.next; lane == l.first {
			return
		}
	}
}

// Drain removes all work, and hands each piece to end.
func (l *Lanes[C]) Drain(end func(C)) {
	for lane := l.first; lane != nil; lane = l.first {
		for _, c := range lane.work[lane.from:] {
			end(c)
		}
		l.drop(lane)
	}
}
