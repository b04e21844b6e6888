package billing

// Work is counted, so that no entry keeps Apply for long whatever it holds: a unit is about one
// record that is read, changed or encoded, some 0.3 µs. It is a function of the log alone, as time
// would not be. What an entry may not do any more is left for the next one: ticks go on by
// themselves, a command is OutcomeDeferred and proposed again.
const (
	// entryWork is what one entry may do before the rest is deferred. What began is ended: an entry
	// takes as much more as its largest single step.
	entryWork = 4096
	// tickWork is how much of that a tick takes: a usage event that travels in the same entry,
	// behind it, must not be deferred again and again for as long as there is something to sweep,
	// nor wait long: a tick of this size takes about 1 ms of a processor.
	tickWork = entryWork / 4
	// tickBytes is how much of journal a tick writes at the most, in bytes.
	tickBytes = 32 << 10
)

// spend counts work that was done, or is about to be done whole.
func (t *turn) spend(units int) { t.m.scratch.work += units }

// left is what the entry may still do; it may be below zero.
func (t *turn) left() int { return entryWork - t.m.scratch.work }

// spent reports whether the entry has done its share.
func (t *turn) spent() bool { return t.left() <= 0 }
