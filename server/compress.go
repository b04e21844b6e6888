package server

import (
	"bytes"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// compressFrom is the size of an answer from which on it is compressed where the client asks: what
// is smaller fits a packet as it is.
const compressFrom = 1024

// compress compresses the answer that is about to leave, where the client asks for it. An answer
// stays uncompressed if its length could reveal a secret (BREACH: another site makes a signed-in
// browser request a page that contains both the site's text and a secret): pages, and answers to
// requests with a cookie. A caller with a key is not such a browser. Streams, and answers that do
// not get shorter, also stay uncompressed.
func (x *Exchange) compress() {
	r := &x.Ctx.Response
	if r.IsBodyStream() || len(r.Body()) < compressFrom ||
		!compressible(r.Header.ContentType()) || len(r.Header.Peek("Content-Encoding")) > 0 ||
		len(r.Header.Peek("ETag")) > 0 { // a validator names bytes
		return
	}
	r.Header.Add("Vary", "Accept-Encoding")
	if len(x.Ctx.Request.Header.Peek("Cookie")) > 0 {
		return
	}
	c := accepted(x.Ctx.Request.Header.PeekAll("Accept-Encoding"))
	if c == codingNone {
		return
	}
	var done bool
	if x.other, done = encode(c, x.other[:0], r.Body()); !done || len(x.other) >= len(r.Body()) {
		return
	}
	r.SetBody(x.other)
	r.Header.Set("Content-Encoding", [...]string{codingGzip: "gzip", codingZstd: "zstd"}[c])
}

// compressible reports whether a media type is text, and no page.
func compressible(media []byte) bool {
	name, _, _ := bytes.Cut(media, []byte{';'})
	name = bytes.ToLower(bytes.TrimSpace(name))
	switch string(name) {
	case "text/html", "text/event-stream":
		return false
	}
	return bytes.HasPrefix(name, []byte("text/")) || string(name) == "application/json" ||
		string(name) == "application/x-ndjson" ||
		bytes.HasSuffix(name, []byte("+json"))
}

// accepted is the coding that a client prefers by its Accept-Encoding (RFC 9110 section 12.5.3); of
// gzip and zstd at the same weight zstd, which costs less. A client that names neither gets none,
// and so does one that prefers identity.
func accepted(headers [][]byte) coding {
	const unnamed = -1
	gzips, zstds, identity, others := unnamed, unnamed, unnamed, unnamed
	for item := range strings.SplitSeq(string(bytes.Join(headers, []byte{','})), ",") {
		name, params, _ := strings.Cut(item, ";")
		weight, ok := weightOf(params)
		if !ok {
			continue
		}
		switch name = strings.ToLower(strings.TrimSpace(name)); name {
		case "gzip", "x-gzip":
			gzips = max(gzips, weight)
		case "zstd":
			zstds = max(zstds, weight)
		case "identity":
			identity = weight
		case "*":
			others = weight
		}
	}
	if gzips == unnamed {
		gzips = others
	}
	switch best := max(gzips, zstds); {
	case best <= 0 || best < identity:
		return codingNone
	case zstds == best:
		return codingZstd
	}
	return codingGzip
}

// weightOf reads "q=0.5" as thousandths; no parameters are 1. False: it is none.
func weightOf(params string) (thousandths int, ok bool) {
	params = strings.TrimSpace(params)
	if params == "" {
		return 1000, true
	}
	name, value, found := strings.Cut(params, "=")
	if !found || !strings.EqualFold(strings.TrimSpace(name), "q") {
		return 0, false
	}
	value = strings.TrimSpace(value)
	if len(value) > 5 || strings.Trim(value, "0123456789.") != "" {
		return 0, false
	}
	weight, err := strconv.ParseFloat(value, 64)
	return int(weight*1000 + 0.5), err == nil && weight <= 1
}

// encode appends text in a coding; false where all encoders are busy: an answer is then faster as
// it is.
func encode(c coding, dst, text []byte) (out []byte, done bool) {
	var e *encoder
	select {
	case e = <-encoders():
	default:
		return dst, false
	}
	defer func() { encoders() <- e }()
	dst = slices.Grow(dst, len(text)/4)
	if c == codingZstd {
		return e.zstd().EncodeAll(text, dst), true
	}
	b := bytes.NewBuffer(dst)
	z := e.gzip()
	z.Reset(b)
	if _, err := z.Write(text); err != nil {
		return dst, false
	}
	if err := z.Close(); err != nil {
		return dst, false
	}
	return b.Bytes(), true
}

// encoder compresses one answer at a time. Its tables, a few hundred KiB, are made when they are
// first needed.
type encoder struct {
	gzip func() *gzip.Writer
	zstd func() *zstd.Encoder
}

// encoders holds the encoders that are free.
var encoders = sync.OnceValue(func() chan *encoder {
	free := make(chan *encoder, 4*runtime.GOMAXPROCS(0))
	for range cap(free) {
		free <- &encoder{
			gzip: sync.OnceValue(func() *gzip.Writer {
				return must(gzip.NewWriterLevel(nil, gzip.BestSpeed))
			}),
			zstd: sync.OnceValue(func() *zstd.Encoder {
				return must(zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1),
					zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithLowerEncoderMem(true),
					zstd.WithWindowSize(1<<20)))
			}),
		}
	}
	return free
})

// must is a value whose making cannot fail, since its options are constants.
func must[T any](value T, err error) T {
	if err != nil {
		panic("server: compression: " + err.Error())
	}
	return value
}
