package fetch

import (
	"context"
	"net/http"
	"strings"

	"golang.org/x/sync/semaphore"
)

// MaxBodies bounds the bodies that a process reads at one time, in bytes, all clients together.
const MaxBodies = 256 << 20

// Bodies bounds the bodies that are read concurrently, in bytes. Each counts at its possible size,
// from its answer's headers to its end. Safe for concurrent use by any number of clients.
type Bodies struct {
	maximum int64
	room    *semaphore.Weighted
}

// underWay are the bodies of all clients that have no others.
var underWay = NewBodies(MaxBodies)

// NewBodies bounds them by so many bytes, which must be positive.
func NewBodies(maximum int64) *Bodies {
	return &Bodies{maximum: maximum, room: semaphore.NewWeighted(maximum)}
}

// read reads a body of at most limit bytes when capacity is free, first come, first served. A wait
// ends with ctx. It holds a connection and its buffers, and no body.
func (b *Bodies) read(ctx context.Context, answer *http.Response, limit int) ([]byte, error) {
	maximum := maxSize(answer, limit)
	if err := b.room.Acquire(ctx, maximum); err != nil {
		return nil, err
	}
	defer b.room.Release(maximum)
	return readBody(answer, limit)
}

// maxSize is the possible size of a body: its announced length, or else the limit.
func maxSize(answer *http.Response, limit int) int64 {
	switch {
	case answer.Body == http.NoBody:
		return 0
	case answer.ContentLength >= 0 && plain(answer):
		return min(answer.ContentLength, int64(limit))
	}
	return int64(limit)
}

// plain reports whether a body is not encoded.
func plain(answer *http.Response) bool {
	encodings := strings.Join(answer.Header.Values("Content-Encoding"), ",")
	return encodings == "" || strings.EqualFold(encodings, "identity")
}
