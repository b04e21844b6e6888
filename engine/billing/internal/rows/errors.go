package rows

import "errors"

// ErrEvent means that a journal record does not decode.
var ErrEvent = errors.New("billing: malformed event in the journal")

var (
	// ErrSnapshot means that bytes are not a snapshot of this machine and format version.
	ErrSnapshot = errors.New("billing: malformed snapshot")
	// ErrSnapshotRunning means that the previous snapshot was not released.
	ErrSnapshotRunning = errors.New("billing: a snapshot is running")
)
