package wal

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"
)

// DefaultSegmentBytes keeps truncation cheap: what has to go is whole files but for one.
const DefaultSegmentBytes = 4 << 20

// Options are all optional; the zero value is what a node runs with. There is none that turns
// fsync off.
type Options struct {
	// FS is where the files are; nil: OS().
	FS FS
	// SegmentBytes is the size at which a new segment file begins, 512 to 1 GiB; 0: 4 MiB. A
	// segment is larger if one StoreLogs call is.
	SegmentBytes int64
	// SpareBytes bounds how much of the segments that leave the log is kept, to be written over: a
	// write into a file that exists costs neither zeroes nor metadata. 0: none.
	SpareBytes int64
	// Logger hears of a cut tail (warning) and of the failure that poisons the log (error); nil:
	// slog.Default().
	Logger *slog.Logger
	// OnCut, if set, is called by Open for a torn tail that it has cut off.
	OnCut func(Cut)
	// OnFatal, if set, is called once, without locks held, on the goroutine whose operation
	// failed, when the log becomes poisoned. A node ends its process here: an fsync is never
	// tried again, because the kernel may have dropped what it could not write.
	OnFatal func(error)
	// OnSync, if set, is called after every StoreLogs that is durable, before it returns, with
	// the time that writing and fsync took, the records and the bytes written. It must be quick.
	OnSync func(took time.Duration, records int, bytes int64)
}

func (o Options) withDefaults() (Options, error) {
	o.FS = cmp.Or(o.FS, OS())
	o.Logger = cmp.Or(o.Logger, slog.Default())
	o.SegmentBytes = cmp.Or(o.SegmentBytes, DefaultSegmentBytes)
	if o.SegmentBytes < 512 || o.SegmentBytes > 1<<30 {
		return o, fmt.Errorf("wal: SegmentBytes is %d, allowed are 512 to %d",
			o.SegmentBytes, 1<<30)
	}
	return o, nil
}
