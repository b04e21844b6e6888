// Package bucket keeps files in a bucket of an object store that speaks Amazon's S3:
// s3://NAME/PREFIX. It owns requests, their signatures and the parts of an upload. It does not own what the files are.
package bucket

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
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
	// partTimeout bounds a request with a part, askTimeout one without, and until a file's first byte.
	partTimeout = 5 * time.Minute
	askTimeout  = 30 * time.Second
	// maxAnswer bounds what is read of an answer that is not a file.
	maxAnswer = 8 << 20
)

// Keys are who asks.
type Keys struct{ ID, Secret, Token string }

// Bucket is a place for files. Safe for concurrent use.
type Bucket struct {
	name, prefix     string
	endpoint, region string
	keys             Keys
	client           *http.Client
	now              func() time.Time
	wait             func(context.Context, time.Duration) error
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
		client: &http.Client{Transport: &http.Transport{
			Proxy: nil, ResponseHeaderTimeout: partTimeout, ForceAttemptHTTP2: true,
		}},
		now: time.Now, wait: pausing,
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

// passing reports whether the same request may succeed later.
func (f *failure) passing() bool { return f.status >= 500 || f.status == 429 }

// ask makes a request, and again where it failed and may succeed, and reads the answer.
func (b *Bucket) ask(
	ctx context.Context, method, file string, query url.Values, body []byte,
) (answer []byte, header http.Header, err error) {
	for try := range tries {
		if try > 0 {
			if waited := b.wait(ctx, pause<<(try-1)); waited != nil {
				return nil, nil, errors.Join(err, waited)
			}
		}
		answer, header, err = b.once(ctx, method, file, query, body)
		var f *failure
		if err == nil || errors.As(err, &f) && !f.passing() || ctx.Err() != nil {
			break
		}
	}
	return answer, header, err
}

func (b *Bucket) once(
	ctx context.Context, method, file string, query url.Values, body []byte,
) ([]byte, http.Header, error) {
	within := askTimeout
	if len(body) > 0 {
		within = partTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	answer, err := b.send(ctx, method, file, query, body)
	if err != nil {
		return nil, nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return nil, nil, fmt.Errorf("bucket: %w", err)
	}
	return text, answer.Header, nil
}

// send makes one request. An answer that is not a success is a failure.
func (b *Bucket) send(
	ctx context.Context, method, file string, query url.Values, body []byte,
) (*http.Response, error) {
	path := "/" + encode(b.name, false)
	if file != "" {
		path += "/" + encode(b.prefix+file, true)
	}
	target := b.endpoint + path
	if len(query) > 0 {
		target += "?" + canonicalQuery(query)
	}
	r, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("bucket: %w", err)
	}
	b.keys.sign(r, b.region, hexOf(body), b.now())
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
	return nil, fmt.Errorf("bucket: %s: %w", b.Name(file), f)
}

// List returns the files of the bucket's prefix, not those of folders below it.
func (b *Bucket) List(ctx context.Context) (files []string, err error) {
	query := url.Values{"list-type": {"2"}, "prefix": {b.prefix}, "delimiter": {"/"}}
	for {
		text, _, err := b.ask(ctx, "GET", "", query, nil)
		if err != nil {
			return nil, err
		}
		var page struct {
			Contents []struct{ Key string }
			Next     string `xml:"NextContinuationToken"`
		}
		if err = xml.Unmarshal(text, &page); err != nil {
			return nil, fmt.Errorf("bucket: list: %w", err)
		}
		for _, c := range page.Contents {
			files = append(files, strings.TrimPrefix(c.Key, b.prefix))
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
	return err
}

// Exists reports whether there is a file.
func (b *Bucket) Exists(ctx context.Context, file string) (bool, error) {
	_, _, err := b.ask(ctx, "HEAD", file, nil, nil)
	var f *failure
	if errors.As(err, &f) && f.status == http.StatusNotFound {
		return false, nil
	}
	return err == nil, err
}

// Read opens a file; size is how long it is, -1 where the store does not say so.
func (b *Bucket) Read(ctx context.Context, file string) (src io.ReadCloser, size int64, err error) {
	answer, err := b.send(ctx, "GET", file, nil, nil)
	if err != nil {
		return nil, 0, err
	}
	return answer.Body, answer.ContentLength, nil
}

// upload is a file on its way, part by part. The first error stays.
type upload struct {
	bucket *Bucket
	ctx    context.Context // of the writes
	file   string
	id     string
	parts  []uploaded
	part   []byte
	err    error
}

type uploaded struct {
	Number int    `xml:"PartNumber"`
	Tag    string `xml:"ETag"`
}

// Write makes a file of what write writes. There is one only when it is whole: before that, and
// after an error or a crash, there are parts at most, which RemoveParts removes.
func (b *Bucket) Write(
	ctx context.Context, file string, write func(io.Writer) error,
) (err error) {
	text, _, err := b.ask(ctx, "POST", file, url.Values{"uploads": {""}}, nil)
	if err != nil {
		return err
	}
	var begun struct {
		ID string `xml:"UploadId"`
	}
	if err = xml.Unmarshal(text, &begun); err != nil || begun.ID == "" {
		return fmt.Errorf("bucket: an upload without an id: %w", err)
	}
	u := &upload{bucket: b, ctx: ctx, file: file, id: begun.ID, part: make([]byte, 0, partBytes)}
	if err = write(u); err == nil {
		err = u.end()
	}
	if err != nil {
		return errors.Join(err, b.abort(context.WithoutCancel(ctx), file, u.id))
	}
	return nil
}

// Write implements io.Writer.
func (u *upload) Write(p []byte) (n int, err error) {
	for len(p) > 0 && u.err == nil {
		some := min(len(p), partBytes-len(u.part))
		u.part = append(u.part, p[:some]...)
		p, n = p[some:], n+some
		if len(u.part) == partBytes {
			u.send()
		}
	}
	return n, u.err
}

// send sends the part that has been collected.
func (u *upload) send() {
	number := len(u.parts) + 1
	if number > maxParts {
		u.err = fmt.Errorf("bucket: %s: more than %d parts", u.file, maxParts)
		return
	}
	query := url.Values{"partNumber": {strconv.Itoa(number)}, "uploadId": {u.id}}
	_, header, err := u.bucket.ask(u.ctx, "PUT", u.file, query, u.part)
	if u.err = err; err == nil {
		u.parts, u.part = append(u.parts, uploaded{number, header.Get("ETag")}), u.part[:0]
	}
}

// end makes a file of the parts.
func (u *upload) end() error {
	if u.err == nil && (len(u.part) > 0 || len(u.parts) == 0) {
		u.send()
	}
	if u.err != nil {
		return u.err
	}
	list, err := xml.Marshal(struct {
		XMLName xml.Name   `xml:"CompleteMultipartUpload"`
		Parts   []uploaded `xml:"Part"`
	}{Parts: u.parts})
	if err != nil {
		return err
	}
	text, _, err := u.bucket.ask(u.ctx, "POST", u.file, url.Values{"uploadId": {u.id}}, list)
	if err != nil {
		return err
	}
	// A store that fails while it joins the parts has answered 200 before.
	failed := &failure{status: http.StatusOK}
	var root struct{ XMLName xml.Name }
	if xml.Unmarshal(text, &root) == nil && root.XMLName.Local == "Error" {
		_ = xml.Unmarshal(text, failed) // its name is enough
		return fmt.Errorf("bucket: %s: %w", u.bucket.Name(u.file), failed)
	}
	return nil
}

func (b *Bucket) abort(ctx context.Context, file, id string) error {
	_, _, err := b.ask(ctx, "DELETE", file, url.Values{"uploadId": {id}}, nil)
	return err
}

// RemoveParts removes what is left of uploads that were not ended, of files that are selected.
func (b *Bucket) RemoveParts(ctx context.Context, selected func(file string) bool) error {
	text, _, err := b.ask(ctx, "GET", "", url.Values{"uploads": {""}, "prefix": {b.prefix}}, nil)
	if err != nil {
		return err
	}
	var list struct {
		Uploads []struct {
			Key string
			ID  string `xml:"UploadId"`
		} `xml:"Upload"`
	}
	if err = xml.Unmarshal(text, &list); err != nil {
		return fmt.Errorf("bucket: uploads: %w", err)
	}
	for _, u := range list.Uploads {
		if file := strings.TrimPrefix(u.Key, b.prefix); selected(file) {
			err = errors.Join(err, b.abort(ctx, file, u.ID))
		}
	}
	return err
}
