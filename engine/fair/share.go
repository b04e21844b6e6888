package fair

// Share bounds how much of a resource each flow may hold: the amount free at that moment, times its
// weight. So one flow alone holds up to half, two that flood hold a third each, and the next one
// still gets a part. The zero value has no capacity.
type Share struct {
	max, used int
	held      map[Flow]int
}

// NewShare shares out so much.
func NewShare(maximum int) *Share { return &Share{max: maximum, held: make(map[Flow]int)} }

// Room is the outcome of a request for a part.
type Room uint8

const (
	// RoomTaken reports whether the flow has it.
	RoomTaken Room = iota
	// RoomFlow means that the flow holds its whole share.
	RoomFlow
	// RoomAll means that nothing is free.
	RoomAll
)

// Take takes n for a flow, unless it holds its share already: one call may exceed the share, so
// that any piece of work fits. Flow 0 may hold everything that is free.
func (s *Share) Take(f Flow, weight, n int) Room {
	room := judge(f, s.max-s.used, s.held[f], weight)
	if room == RoomTaken {
		s.held[f] += n
		s.used += n
	}
	return room
}

func judge(f Flow, free, held, weight int) Room {
	switch {
	case f != 0 && held > 0 && held/max(1, weight) >= free:
		return RoomFlow
	case free <= 0:
		return RoomAll
	}
	return RoomTaken
}

// Give gives back n that the flow took.
func (s *Share) Give(f Flow, n int) {
	s.used -= n
	if left := s.held[f] - n; left != 0 {
		s.held[f] = left
	} else {
		delete(s.held, f)
	}
}

// Clear gives back what all flows hold.
func (s *Share) Clear() {
	clear(s.held)
	s.used = 0
}

// Held is the amount that the flow holds, Used the total, Flows the number of flows that hold any.
func (s *Share) Held(f Flow) int { return s.held[f] }

// Max is how much there is.
func (s *Share) Max() int { return s.max }

// Used is what all flows hold.
func (s *Share) Used() int { return s.used }

// Flows is how many flows hold something.
func (s *Share) Flows() int { return len(s.held) }
