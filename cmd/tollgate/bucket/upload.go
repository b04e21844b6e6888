package bucket

import (
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
)

// upload is a file on its way: by one request where it fits into a part, otherwise part by part.
// The first error stays.
type upload struct {
	bucket *Bucket
	ctx    context.Context // of the writes
	file   string
	id     string // "" while all is in part
	parts  []uploaded
	part   []byte
	lent   *loan // of part
	bytes  int64
	err    error
}

type uploaded struct {
	Number int    `xml:"PartNumber"`
	Tag    string `xml:"ETag"`
}

// buffers are parts that no request reads any more.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// Write makes a file of what write writes, instead of one of that name. There is one only when
// it is whole: before that, and after an error or a crash, there are parts at most, which
// RemoveParts removes. After an error there may be the whole file, if the store's answer was lost.
func (b *Bucket) Write(ctx context.Context, file string, write func(io.Writer) error) error {
	buffer := buffers.Get().(*[]byte)
	u := &upload{bucket: b, ctx: ctx, file: file, part: (*buffer)[:0], lent: &loan{}}
	err := write(u)
	if err == nil {
		err = u.end()
	}
	if err == nil {
		if u.lent.ended() {
			*buffer = u.part
			buffers.Put(buffer)
		}
		return nil
	}
	if u.id != "" {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
		defer cancel()
		_, _, failed := b.once(ctx, abort(file, u.id))
		err = errors.Join(err, failed)
	}
	return err
}

// Write implements io.Writer.
func (u *upload) Write(p []byte) (n int, err error) {
	for len(p) > 0 && u.err == nil {
		if len(u.part) == u.bucket.part {
			u.send()
			continue
		}
		some := min(len(p), u.bucket.part-len(u.part))
		u.part = append(u.part, p[:some]...)
		p, n, u.bytes = p[some:], n+some, u.bytes+int64(some)
	}
	return n, u.err
}

// send sends the part that has been collected.
func (u *upload) send() {
	if u.id == "" {
		if u.err = u.begin(); u.err != nil {
			return
		}
	}
	number := len(u.parts) + 1
	if number > maxParts {
		u.err = fmt.Errorf("bucket: %s: more than %d parts", u.file, maxParts)
		return
	}
	query := url.Values{"partNumber": {strconv.Itoa(number)}, "uploadId": {u.id}}
	header, err := u.put(query)
	if u.err = err; err != nil {
		return
	}
	u.parts, u.part = append(u.parts, uploaded{number, header.Get("ETag")}), u.part[:0]
	if !u.lent.ended() { // the next part gets memory of its own
		u.part, u.lent = nil, &loan{}
	}
}

// put sends what was collected.
func (u *upload) put(query url.Values) (http.Header, error) {
	_, header, err := u.bucket.askFor(u.ctx, request{
		method: "PUT", file: u.file, query: query, body: u.part, lent: u.lent,
	})
	return header, err
}

func (u *upload) begin() error {
	text, _, err := u.bucket.ask(u.ctx, "POST", u.file, url.Values{"uploads": {""}}, nil)
	if err != nil {
		return err
	}
	var begun struct {
		ID string `xml:"UploadId"`
	}
	if err = xml.Unmarshal(text, &begun); err != nil {
		return fmt.Errorf("bucket: begin an upload: %w", err)
	}
	if u.id = begun.ID; u.id == "" {
		return errors.New("bucket: begin an upload: the answer has no UploadId")
	}
	return nil
}

// end makes a file of what was written.
func (u *upload) end() error {
	if u.err != nil {
		return u.err
	}
	if u.id == "" {
		_, err := u.put(nil)
		return err
	}
	if u.send(); u.err != nil { // there is one: a part is sent when more follows
		return u.err
	}
	list, err := xml.Marshal(struct {
		XMLName xml.Name   `xml:"CompleteMultipartUpload"`
		Parts   []uploaded `xml:"Part"`
	}{Parts: u.parts})
	if err != nil {
		return err
	}
	_, _, err = u.bucket.ask(u.ctx, "POST", u.file, url.Values{"uploadId": {u.id}}, list)
	if errors.Is(err, fs.ErrNotExist) {
		// No such upload: it was ended by a request whose answer was lost, if there is its file.
		size, found, failed := u.bucket.size(u.ctx, u.file)
		if failed == nil && found && size == u.bytes {
			return nil
		}
	}
	return err
}

func abort(file, id string) request {
	return request{method: "DELETE", file: file, query: url.Values{"uploadId": {id}}}
}

// RemoveParts removes what is left of uploads that were not ended, of files that are selected.
func (b *Bucket) RemoveParts(ctx context.Context, selected func(file string) bool) (failed error) {
	query := url.Values{"uploads": {""}, "prefix": {b.prefix}}
	for {
		text, _, err := b.ask(ctx, "GET", "", query, nil)
		if err != nil {
			return errors.Join(failed, err)
		}
		var page struct {
			Uploads []struct {
				Key string
				ID  string `xml:"UploadId"`
			} `xml:"Upload"`
			More    bool   `xml:"IsTruncated"`
			NextKey string `xml:"NextKeyMarker"`
			NextID  string `xml:"NextUploadIdMarker"`
		}
		if err = xml.Unmarshal(text, &page); err != nil {
			return errors.Join(failed, fmt.Errorf("bucket: uploads: %w", err))
		}
		for _, u := range page.Uploads {
			file := strings.TrimPrefix(u.Key, b.prefix)
			if !selected(file) {
				continue
			}
			_, _, err := b.ask(ctx, "DELETE", file, abort(file, u.ID).query, nil)
			if !errors.Is(err, fs.ErrNotExist) { // it may have ended meanwhile
				failed = errors.Join(failed, err)
			}
		}
		if !page.More || page.NextKey == "" {
			return failed
		}
		query.Set("key-marker", page.NextKey)
		query.Set("upload-id-marker", page.NextID)
	}
}
