package idempotency

// Entry is a key and what is kept of it, as a journal's record of the event has it.
type Entry struct {
	Key  [16]byte
	Slot Slot
}

// Verdict is the result of searching files for a key. It stays valid: its user compares Through
// with the keys in memory at that time.
type Verdict struct {
	// Through reports whether all records before this number were looked at.
	Through uint64
	// Found reports whether one of them, the newest of that key, has Number and Slot.
	Found  bool
	Number uint64
	Slot   Slot
}

// Finder looks for keys that have left memory. Any goroutine.
type Finder interface {
	// FindKey looks in the files of this node. After an error nothing is known about the key.
	FindKey(key [16]byte) (Verdict, error)
}
