// Package bucket keeps files in a bucket of an object store that speaks Amazon's S3:
// s3://NAME/PREFIX. It owns requests, their signatures, the parts of an upload, and readings that
// go on where a connection ended. It does not own what the files are.
package bucket

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Scheme begins the name of a bucket.
const Scheme = "s3://"

const (
	// partBytes is what an upload holds in memory; at most 10,000 parts make a file (312 GiB).
	partBytes = 32 << 20
	maxParts  = 10_000
	// tries is how often a request is made that failed at the store or on the way, and pause how long
	// the first of them waits for the next; each waits twice as long as the one before.
	tries = 5
	pause = time.Second
	// partTimeout bounds a request with a part, askTimeout one without, and how long a file that is
	// read may send nothing. abortTimeout bounds the end of an upload that failed: a node that stops
	// waits for it.
	partTimeout  = 5 * time.Minute
	askTimeout   = 30 * time.Second
	abortTimeout = 3 * time.Second
	// maxAnswer bounds what is read of an answer that is not a file.
	maxAnswer = 8 << 20
)

// Keys are the credentials that requests are signed with.
type Keys struct{ ID, Secret, Token string }

// Bucket is a place for files. Safe for concurrent use.
type Bucket struct {
	name, prefix     string
	endpoint, region string
	keys             Keys
	client           *http.Client
	now              func() time.Time
	wait             func(context.Context, time.Duration) error
	part             int           // partBytes
	silence          time.Duration // askTimeout, of a file that is read
}

// File is a file of a bucket, and its size.
type File struct {
	Name  string
	Bytes int64
}

// Open names a bucket, without asking for it. The environment says who asks, and where: the
// variables are those of Amazon's own tools.
func Open(name string, environment func(string) string) (*Bucket, error) {
	at, ours := strings.CutPrefix(name, Scheme)
	if !ours {
		return nil, fmt.Errorf("bucket: %q does not begin with %s", name, Scheme)
	}
	b := &Bucket{
		keys: Keys{
			environment("AWS_ACCESS_KEY_ID"), environment("AWS_SECRET_ACCESS_KEY"),
			environment("AWS_SESSION_TOKEN"),
		},
		// A request is signed for one host, and its headers are for no other: redirects are answers.
		client: &http.Client{
			Transport: &http.Transport{
				Proxy: nil, ResponseHeaderTimeout: partTimeout, ForceAttemptHTTP2: true,
				DisableCompression: true,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return http.ErrUseLastResponse
			},
		},
		now: time.Now, wait: pausing, part: partBytes, silence: askTimeout,
	}
	b.name, b.prefix, _ = strings.Cut(at, "/")
	if b.prefix = strings.Trim(b.prefix, "/"); b.prefix != "" {
		b.prefix += "/"
	}
	if b.name == "" || strings.ContainsAny(b.name, "?#%") {
		return nil, fmt.Errorf("bucket: %q: want s3://BUCKET/PREFIX", name)
	}
	first := func(names ...string) (value string) {
		for _, n := range names {
			if value == "" {
				value = environment(n)
			}
		}
		return value
	}
	if b.region = first("AWS_REGION", "AWS_DEFAULT_REGION"); b.region == "" {
		b.region = "us-east-1"
	}
	b.endpoint = first("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
	if b.endpoint == "" {
		b.endpoint = "https://s3." + b.region + ".amazonaws.com"
	}
	b.endpoint = strings.TrimRight(b.endpoint, "/")
	if u, err := url.Parse(b.endpoint); err != nil || u.Host == "" {
		return nil, fmt.Errorf("bucket: AWS_ENDPOINT_URL: %q: want http(s)://host", b.endpoint)
	}
	if b.keys.ID == "" || b.keys.Secret == "" {
		return nil, errors.New(
			"bucket: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment")
	}
	return b, nil
}

func pausing(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Name is what a file is called.
func (b *Bucket) Name(file string) string { return Scheme + b.name + "/" + b.prefix + file }

// failure is an answer that is not a success.
type failure struct {
	status int
	Code   string `xml:"Code"`
	Text   string `xml:"Message"`
}

func (f *failure) Error() string {
	return strings.TrimSpace(fmt.Sprintf("the bucket answers %d %s %s", f.status, f.Code, f.Text))
}

// passing reports whether the same request may succeed later. A store that fails after it began its
// answer has said 200 by then.
func (f *failure) passing() bool {
	return f.status >= 500 || f.status == http.StatusTooManyRequests ||
		f.status == http.StatusOK || f.Code == "RequestTimeout"
}

// Is reports whether f means fs.ErrNotExist: the file does not exist.
func (f *failure) Is(target error) bool {
	return target == fs.ErrNotExist && f.status == http.StatusNotFound && f.Code != "NoSuchBucket"
}

// ask makes a request, and again where it failed and may succeed, and reads the answer.
func (b *Bucket) ask(
	ctx context.Context, method, file string, query url.Values, body []byte,
) (answer []byte, header http.Header, err error) {
	return b.askFor(ctx, request{method: method, file: file, query: query, body: body})
}

// askFor is ask for a request.
func (b *Bucket) askFor(
	ctx context.Context, what request,
) (answer []byte, header http.Header, err error) {
	for try := range tries {
		if try > 0 {
			if waited := b.wait(ctx, pause<<(try-1)); waited != nil {
				return nil, nil, errors.Join(err, waited)
			}
		}
		answer, header, err = b.once(ctx, what)
		var f *failure
		if err == nil || errors.As(err, &f) && !f.passing() || ctx.Err() != nil {
			break
		}
	}
	return answer, header, err
}

type request struct {
	method, file string
	query        url.Values
	header       map[string]string
	body         []byte
	lent         *loan // nil where body is not written to again
}

// loan counts who may still read the bytes of requests: a request that has failed, or was answered
// early, closes its body later, and reads it until then.
type loan struct{ readers atomic.Int32 }

// reader lends bytes to a request.
func (l *loan) reader(b []byte) io.ReadCloser {
	if l == nil {
		return io.NopCloser(bytes.NewReader(b))
	}
	l.readers.Add(1)
	return &lentReader{Reader: bytes.NewReader(b), end: sync.OnceFunc(func() { l.readers.Add(-1) })}
}

// ended reports whether no request reads the bytes any more.
func (l *loan) ended() bool { return l.readers.Load() == 0 }

type lentReader struct {
	*bytes.Reader
	end func()
}

// Close implements io.Closer.
func (l *lentReader) Close() error {
	l.end()
	return nil
}

// once makes a request and reads the answer.
func (b *Bucket) once(ctx context.Context, what request) ([]byte, http.Header, error) {
	within := askTimeout
	if len(what.body) > 0 {
		within = partTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	answer, err := b.send(ctx, what)
	if err != nil {
		return nil, nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return nil, nil, fmt.Errorf("bucket: %w", err)
	}
	var root struct{ XMLName xml.Name }
	if xml.Unmarshal(text, &root) == nil && root.XMLName.Local == "Error" {
		f := &failure{status: answer.StatusCode}
		err := errors.Join(f, xml.Unmarshal(text, f))
		return nil, nil, fmt.Errorf("bucket: %s: %w", b.Name(what.file), err)
	}
	return text, answer.Header, nil
}

// send makes one request. An answer that is not a success is a failure.
func (b *Bucket) send(ctx context.Context, what request) (*http.Response, error) {
	path := "/" + encode(b.name, false)
	if what.file != "" {
		path += "/" + encode(b.prefix+what.file, true)
	}
	target := b.endpoint + path
	if len(what.query) > 0 {
		target += "?" + canonicalQuery(what.query)
	}
	r, err := http.NewRequestWithContext(ctx, what.method, target, nil)
	if err != nil {
		return nil, fmt.Errorf("bucket: %w", err)
	}
	if r.Body = http.NoBody; len(what.body) > 0 {
		r.ContentLength, r.Body = int64(len(what.body)), what.lent.reader(what.body)
		r.GetBody = func() (io.ReadCloser, error) { return what.lent.reader(what.body), nil }
	}
	for name, value := range what.header {
		r.Header.Set(name, value)
	}
	b.keys.sign(r, b.region, hexOf(what.body), b.now())
	answer, err := b.client.Do(r)
	if err != nil {
		return nil, fmt.Errorf("bucket: %w", err)
	}
	if answer.StatusCode/100 == 2 {
		return answer, nil
	}
	defer answer.Body.Close()
	f := &failure{status: answer.StatusCode}
	if text, err := io.ReadAll(io.LimitReader(answer.Body, 64<<10)); err == nil {
		_ = xml.Unmarshal(text, f) // a proxy's page is none; the status stands
	}
	return nil, fmt.Errorf("bucket: %s: %w", b.Name(what.file), f)
}

// List returns the files of the bucket's prefix whose names begin with beginning, not those of
// folders below it.
func (b *Bucket) List(ctx context.Context, beginning string) (files []File, err error) {
	query := url.Values{"list-type": {"2"}, "prefix": {b.prefix + beginning}, "delimiter": {"/"}}
	for {
		text, _, err := b.ask(ctx, "GET", "", query, nil)
		if err != nil {
			return nil, err
		}
		var page struct {
			Contents []struct {
				Key  string
				Size int64
			}
			Next string `xml:"NextContinuationToken"`
		}
		if err = xml.Unmarshal(text, &page); err != nil {
			return nil, fmt.Errorf("bucket: list: %w", err)
		}
		for _, c := range page.Contents {
			files = append(files, File{strings.TrimPrefix(c.Key, b.prefix), c.Size})
		}
		if page.Next == "" {
			return files, nil
		}
		query.Set("continuation-token", page.Next)
	}
}

// Remove removes a file; one that does not exist is removed already.
func (b *Bucket) Remove(ctx context.Context, file string) error {
	_, _, err := b.ask(ctx, "DELETE", file, nil, nil)
	if errors.Is(err, fs.ErrNotExist) { // already deleted, perhaps by an earlier attempt
		return nil
	}
	return err
}

// Exists reports whether there is a file.
func (b *Bucket) Exists(ctx context.Context, file string) (bool, error) {
	_, found, err := b.size(ctx, file)
	return found, err
}

// size is how long a file is, -1 where the store does not say so, if it is found.
func (b *Bucket) size(ctx context.Context, file string) (bytes int64, found bool, err error) {
	_, header, err := b.ask(ctx, "HEAD", file, nil, nil)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	if bytes, err = strconv.ParseInt(header.Get("Content-Length"), 10, 64); err != nil {
		bytes = -1
	}
	return bytes, true, nil
}
