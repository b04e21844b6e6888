package search

import (
	"slices"
	"strings"
	"sync"
	"time"

	"tollgate/engine/billing"
)

const (
	// segmentRows is how many customers are sorted at once: some 0.2 s and 10 MiB of memory that is
	// free afterwards.
	segmentRows = 1 << 16
	// maxLoose is how many customers, new or changed, are compared one by one at least; of a large
	// environment a share of 1/looseShare.
	maxLoose   = 1024
	looseShare = 64
	// rowsAtOnce is how many rows are looked at between two looks at the clock.
	rowsAtOnce = 1 << 14
)

// index has a view of each environment that was searched, made when it is asked for. It is
// outside the state: who does not search pays nothing for it.
type index struct {
	machine *billing.Machine
	maxRows int
	// building is held by who sorts: one at a time, so that searches leave the processor to requests.
	building chan struct{}

	mu    sync.Mutex
	views map[uint32]*view
}

// view is the customers of an environment in the order of their texts. It holds rows, and no text
// of anybody's: what is compared is read from the state, so an erased customer leaves no trace.
type view struct {
	index *index
	env   uint32
	// turn is held by who reads or changes the view.
	turn chan struct{}
	used time.Time // guarded by index.mu
	rows int       // of all segments; guarded by index.mu

	// mark says which changes of profiles are in the view, through which rows were looked at.
	mark     billing.ProfileMark
	through  uint32
	segments []*segment
	// waiting are rows of no segment yet, in their order; changed are rows of segments where they
	// stand in the order of a text that they no longer have.
	waiting  []uint32
	changed  map[uint32]struct{}
	invoices numbers
}

// orders are what customers are sorted by.
const (
	byID = iota
	byName
	byLastName
	byEmail
	orders
)

// segment is customers in each of the orders.
type segment [orders][]uint32

func texts(n *billing.CustomerNames) [orders]string {
	return [orders]string{
		byID: fold(n.ExternalID), byName: fold(n.FirstName + " " + n.LastName),
		byLastName: fold(n.LastName), byEmail: fold(n.Email),
	}
}

func (x *index) open(m *billing.Machine, maxRows int) {
	*x = index{
		machine: m, maxRows: maxRows, building: make(chan struct{}, 1), views: map[uint32]*view{},
	}
}

// take waits for a turn until a deadline; but it takes one that is free.
func take(turn chan struct{}, deadline time.Time) bool {
	select {
	case turn <- struct{}{}:
		return true
	default:
	}
	late := time.NewTimer(time.Until(deadline))
	defer late.Stop()
	select {
	case turn <- struct{}{}:
		return true
	case <-late.C:
		return false
	}
}

// view returns the environment's, with its turn; nil when it is not free in time.
func (x *index) view(env uint32, deadline time.Time) *view {
	x.mu.Lock()
	v := x.views[env]
	if v == nil {
		v = &view{index: x, env: env, turn: make(chan struct{}, 1)}
		x.views[env] = v
	}
	v.used = time.Now()
	x.mu.Unlock()
	if !take(v.turn, deadline) {
		return nil
	}
	return v
}

// room makes room for the rows of another segment of a view: views that were not used for longest
// go. False: the view alone has as many as there may be.
func (x *index) room(v *view, more int) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	for {
		sum := 0
		var oldest *view
		for _, o := range x.views {
			sum += o.rows
			if o != v && o.rows > 0 && (oldest == nil || o.used.Before(oldest.used)) {
				oldest = o
			}
		}
		switch {
		case sum+more <= x.maxRows:
			v.rows += more
			return true
		case oldest == nil:
			return false
		}
		delete(x.views, oldest.env) // whoever holds it may finish with it
	}
}

// find lists rows of customers one of whose texts begins so, at most limit in each order. It is not
// complete where not all customers were looked at.
func (x *index) find(env uint32, text string, limit int, deadline time.Time) ([]uint32, bool) {
	v := x.view(env, deadline)
	if v == nil {
		return nil, false
	}
	defer func() { <-v.turn }()
	// A profile that changes meanwhile may hide others from the search: then it searches again.
	for tries := 0; ; tries++ {
		complete := v.catchUp(deadline)
		rows := v.search(text, limit)
		changed, _, known := x.machine.ProfilesSince(v.mark)
		if known && len(changed) == 0 || tries == 3 {
			return rows, complete
		}
	}
}

// catchUp adds what has changed. False: there was no time, or no room, for all of it.
func (v *view) catchUp(deadline time.Time) bool {
	m := v.index.machine
	changed, now, known := m.ProfilesSince(v.mark)
	if v.mark = now; !known || len(v.changed)+len(changed) > v.loose()+maxLoose {
		v.reset()
	}
	for _, row := range changed {
		if row > v.through || len(v.waiting) > 0 && row >= v.waiting[0] {
			continue // it is in no segment yet
		}
		if _, ours := m.CustomerNames(v.env, row); ours {
			v.changed[row] = struct{}{}
		}
	}
	for {
		rows, through, more := m.CustomerRows(v.env, v.through, rowsAtOnce)
		v.waiting = append(v.waiting, rows...)
		if v.through = through; len(v.waiting) >= segmentRows && !v.sort(deadline) {
			return false
		}
		if !more {
			break
		}
		if time.Now().After(deadline) {
			return false
		}
	}
	return len(v.waiting) <= v.loose() || v.sort(deadline)
}

// loose is how many customers may be outside the segments.
func (v *view) loose() int { return max(maxLoose, len(v.segments)*segmentRows/looseShare) }

func (v *view) reset() {
	v.through, v.segments, v.waiting, v.changed = 0, nil, nil, map[uint32]struct{}{}
	v.invoices = numbers{}
	v.index.mu.Lock()
	v.rows = 0
	v.index.mu.Unlock()
}

// sort makes segments of the rows that wait, together with those of a last one that is not full.
func (v *view) sort(deadline time.Time) bool {
	for len(v.waiting) > v.loose() {
		if time.Now().After(deadline) || !take(v.index.building, deadline) {
			return false
		}
		rows, last := v.waiting, len(v.segments)-1
		if last >= 0 && len(v.segments[last][byID]) < segmentRows {
			rows = append(slices.Sorted(slices.Values(v.segments[last][byID])), rows...)
		} else {
			last++
		}
		had := len(rows) - len(v.waiting)
		rows = rows[:min(len(rows), segmentRows)]
		added := len(rows) - had
		if !v.index.room(v, added) {
			<-v.index.building
			return false
		}
		v.segments = append(v.segments[:last], v.sorted(rows))
		v.waiting = slices.Clone(v.waiting[added:])
		for _, row := range rows {
			delete(v.changed, row)
		}
		<-v.index.building
	}
	return true
}

// sorted makes a segment of rows. Their texts are in memory only meanwhile.
func (v *view) sorted(rows []uint32) *segment {
	type entry struct {
		text string
		row  uint32
	}
	var lists [orders][]entry
	for i := range lists {
		lists[i] = make([]entry, 0, len(rows))
	}
	for _, row := range rows {
		n, _ := v.index.machine.CustomerNames(v.env, row)
		for i, text := range texts(&n) {
			lists[i] = append(lists[i], entry{text, row})
		}
	}
	s := new(segment)
	for i, list := range lists {
		slices.SortFunc(list, func(a, b entry) int { return strings.Compare(a.text, b.text) })
		s[i] = make([]uint32, len(list))
		for at := range list {
			s[i][at] = list[at].row
		}
		lists[i] = nil
	}
	return s
}

// search lists rows with a text that begins so, without one twice.
func (v *view) search(text string, limit int) (found []uint32) {
	take := func(row uint32) {
		if !slices.Contains(found, row) {
			found = append(found, row)
		}
	}
	for order := range orders {
		left := limit
		for _, s := range v.segments {
			list := s[order]
			for at := v.first(list, order, text); at < len(list) && left > 0; at++ {
				if _, out := v.changed[list[at]]; out {
					continue
				}
				if !strings.HasPrefix(v.text(list[at], order), text) {
					break
				}
				take(list[at])
				left--
			}
		}
	}
	left := limit
	loose := func(row uint32) {
		n, _ := v.index.machine.CustomerNames(v.env, row)
		for _, t := range texts(&n) {
			if strings.HasPrefix(t, text) {
				take(row)
				left--
				return
			}
		}
	}
	for row := range v.changed {
		if left > 0 {
			loose(row)
		}
	}
	for i := len(v.waiting) - 1; i >= max(0, len(v.waiting)-2*v.loose()) && left > 0; i-- {
		loose(v.waiting[i])
	}
	return found
}

func (v *view) text(row uint32, order int) string {
	n, _ := v.index.machine.CustomerNames(v.env, row)
	return texts(&n)[order]
}

// first is where in a sorted list texts begin that are not before a text. Rows that have changed
// since stand anywhere, so a step that meets one goes on to the next that has not.
func (v *view) first(list []uint32, order int, text string) int {
	low, high := 0, len(list)
	for low < high {
		middle := (low + high) / 2
		at := middle
		for at < high {
			if _, out := v.changed[list[at]]; !out {
				break
			}
			at++
		}
		if at < high && v.text(list[at], order) < text {
			low = at + 1
		} else {
			high = middle
		}
	}
	return low
}
