package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// ErrBroken means that the connection ended, again and again, before a file did. It says nothing of
// the file, and is never io.EOF or io.ErrUnexpectedEOF.
var ErrBroken = errors.New("bucket: the connection ended before the file did")

// reader reads a file. Where the connection ends, or sends nothing for a while, it goes on with
// another one, of the same file: the store compares its ETag.
type reader struct {
	bucket   *Bucket
	ctx      context.Context // of the reads
	file     string
	tag      string
	at, size int64 // size is -1 where the store does not say so
	failures int   // in a row, without a byte between them

	body   io.ReadCloser // nil when the next read is to ask for the rest
	cancel context.CancelFunc
	silent *time.Timer // runs while a read waits, and cancels
}

// Read opens a file; size is how long it is, -1 where the store does not say so. It is
// fs.ErrNotExist where there is none, and a read ErrBroken where the rest could not be had.
func (b *Bucket) Read(ctx context.Context, file string) (src io.ReadCloser, size int64, err error) {
	r := &reader{bucket: b, ctx: ctx, file: file, size: -1}
	if err := r.open(nil); err != nil {
		return nil, 0, err
	}
	return r, r.size, nil
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	for len(p) > 0 {
		if r.at == r.size {
			return 0, io.EOF
		}
		var cause error
		if r.body != nil {
			r.silent.Reset(r.bucket.silence)
			n, err := r.body.Read(p)
			r.silent.Stop()
			if n > 0 {
				r.at, r.failures = r.at+int64(n), 0
				return n, nil
			}
			if err == io.EOF && r.size < 0 {
				return 0, io.EOF
			}
			if err == nil {
				continue
			}
			cause = errors.Join(err, r.Close())
			r.failures++
		}
		if err := r.open(cause); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// Close implements io.Closer.
func (r *reader) Close() error {
	if r.body == nil {
		return nil
	}
	err := r.body.Close()
	r.silent.Stop()
	r.cancel()
	r.body = nil
	return err
}

// open asks for the file from where reading is: again, with pauses, as every request. Cause is why
// the reading before ended.
func (r *reader) open(cause error) error {
	for r.failures < tries {
		if r.failures > 0 {
			if err := r.bucket.wait(r.ctx, pause<<(r.failures-1)); err != nil {
				return fmt.Errorf("bucket: %s: %w", r.bucket.Name(r.file), err)
			}
		}
		err := r.ask()
		if err == nil {
			return nil
		}
		var f *failure
		if r.ctx.Err() != nil {
			return fmt.Errorf("bucket: %s: %w", r.bucket.Name(r.file), r.ctx.Err())
		}
		if errors.As(err, &f) && !f.passing() || errors.Is(err, errAnother) {
			return err
		}
		r.failures++
		cause = err
	}
	return fmt.Errorf("%w: %s, at byte %d of %d: %v", // %v: the cause may be io.EOF
		ErrBroken, r.bucket.Name(r.file), r.at, r.size, cause)
}

// errAnother means that the store does not go on where reading was.
var errAnother = errors.New("bucket: the store does not send the rest of the file")

func (r *reader) ask() error {
	what := request{method: "GET", file: r.file, header: map[string]string{}}
	if r.tag != "" {
		what.header["If-Match"] = r.tag
	}
	if r.at > 0 {
		if r.tag == "" { // it could be another file by now
			return fmt.Errorf("%w: %s has no ETag", errAnother, r.bucket.Name(r.file))
		}
		what.header["Range"] = fmt.Sprintf("bytes=%d-", r.at)
	}
	ctx, cancel := context.WithCancel(r.ctx)
	silent := time.AfterFunc(r.bucket.silence, cancel)
	answer, err := r.bucket.send(ctx, what)
	silent.Stop()
	if err != nil {
		cancel()
		return err
	}
	r.body, r.cancel, r.silent = answer.Body, cancel, silent
	if r.at == 0 {
		r.tag, r.size = answer.Header.Get("ETag"), answer.ContentLength
		return nil
	}
	from := fmt.Sprintf("bytes %d-", r.at)
	if answer.StatusCode != http.StatusPartialContent ||
		!strings.HasPrefix(answer.Header.Get("Content-Range"), from) {
		return errors.Join(fmt.Errorf("%w: %s, from byte %d: status %d, Content-Range %q", errAnother,
			r.bucket.Name(r.file), r.at, answer.StatusCode, answer.Header.Get("Content-Range")), r.Close())
	}
	return nil
}
