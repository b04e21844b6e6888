package server

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// coding is how a body is compressed (Content-Encoding, RFC 9110 section 8.4).
type coding uint8

const (
	codingNone coding = iota
	codingGzip
	codingZstd
)

// codingNames are the codings that bodies may have and answers can have, as Accept-Encoding lists
// them.
const codingNames = "gzip, zstd"

// CompressionAbout is what an API's document says of compression.
const CompressionAbout = "Request bodies may have Content-Encoding gzip or zstd; limits apply to " +
	"the decompressed body. Answers of 1 KiB and more are compressed if Accept-Encoding allows it."

// zstdWindow is the largest window of a zstd body: what RFC 9659 allows the content coding.
const zstdWindow = 8 << 20

// Faults of compressed bodies.
var (
	faultCoding = FaultMedia.With("Nothing was changed. Send the body with Content-Encoding gzip or " +
		"zstd, or without Content-Encoding.")
	faultCodedTwice = NewFault(400, "malformed_encoding",
		"The body is compressed more than once").With(
		"Nothing was changed. Compress it once, with gzip or zstd, and name that coding in " +
			"Content-Encoding.")
	faultDamaged = NewFault(400, "malformed_encoding", "The body cannot be decompressed").With(
		"Nothing was changed. The body is damaged, cut off, or in another coding than Content-Encoding " +
			"names.")
	faultWindow = NewFault(400, "malformed_encoding", "The body cannot be decompressed").With(
		"Nothing was changed. Its zstd window is larger than 8 MiB; compress it with a smaller one " +
			"(--long=23 or less).")
)

// codedLimit is how many bytes a compressed body may have where limit bytes may come out: what does
// not compress gets a little longer, and a body of empty blocks must end somewhere.
func codedLimit(limit int) int { return limit + limit/8 + 1024 }

// bodyLimit is how many bytes of a body are read.
func (x *Exchange) bodyLimit() int {
	if x.coding == codingNone {
		return x.Route.Limit
	}
	return codedLimit(x.Route.Limit)
}

// readCoding reads Content-Encoding. A request without a body has none.
func (x *Exchange) readCoding() *Fault {
	x.coding = codingNone
	if x.Ctx.Request.Header.ContentLength() == 0 {
		return nil
	}
	named := 0
	for _, value := range x.Ctx.Request.Header.PeekAll("Content-Encoding") {
		for len(value) > 0 {
			var name []byte
			name, value, _ = bytes.Cut(value, []byte{','})
			switch name = bytes.TrimSpace(name); {
			case len(name) == 0, bytes.EqualFold(name, []byte("identity")):
				continue
			case isGzip(name):
				x.coding = codingGzip
			case bytes.EqualFold(name, []byte("zstd")):
				x.coding = codingZstd
			default:
				x.Ctx.Response.Header.Set("Accept-Encoding", codingNames)
				return faultCoding
			}
			named++
		}
	}
	if named > 1 {
		return faultCodedTwice
	}
	return nil
}

// isGzip knows gzip by both of its names (RFC 9110 section 8.4.1.3).
func isGzip(name []byte) bool {
	return bytes.EqualFold(name, []byte("gzip")) || bytes.EqualFold(name, []byte("x-gzip"))
}

// decodeBody decompresses Body. Each try has room for so many bytes and stops where more come out,
// so that a bomb costs no more than the route's limit; what it holds counts in the gate before it
// is allocated. Nothing is held between tries: a request that waits for its turn keeps no decoder.
func (x *Exchange) decodeBody() *Fault {
	if x.coding == codingNone || len(x.Body) == 0 {
		return nil
	}
	for room := firstRoom(x.coding, x.Body, x.Route.Limit); ; room *= 4 {
		room = min(room, x.Route.Limit)
		if room > turnBody {
			if fault := x.awaitTurn(room); fault != nil {
				return fault
			}
		}
		if fault := x.hold(len(x.Body) + room); fault != nil {
			return fault
		}
		x.other = emptied(x.other, room)
		out, err := decode(x.coding, x.other[:0:room], x.Body)
		switch {
		case errors.Is(err, errRoom) && room < x.Route.Limit:
			continue
		case errors.Is(err, errRoom):
			return sizeFault(x.Route.Limit)
		case errors.Is(err, zstd.ErrWindowSizeExceeded):
			return faultWindow
		case err != nil:
			return faultDamaged
		case codingOf(out) != codingNone:
			return faultCodedTwice
		}
		x.Body, x.other = out, x.Body
		return nil
	}
}

// firstRoom is what comes out of a body by its own account, but no more than a good compression
// makes of its size: a few bytes that claim megabytes get them only step by step.
func firstRoom(c coding, body []byte, limit int) int {
	room := 16*len(body) + 1024
	switch c {
	case codingGzip: // the last four bytes, modulo 2^32 (RFC 1952 section 2.3.1)
		if len(body) >= 18 {
			room = min(room, int(binary.LittleEndian.Uint32(body[len(body)-4:])))
		}
	case codingZstd:
		var h zstd.Header
		if h.Decode(body) == nil && h.HasFCS && h.FrameContentSize < uint64(room) {
			room = int(h.FrameContentSize)
		}
	}
	return max(512, min(room, limit))
}

// codingOf knows a compressed body by its first bytes, which no JSON begins with.
func codingOf(body []byte) coding {
	switch {
	case bytes.HasPrefix(body, []byte{0x1f, 0x8b}):
		return codingGzip
	case bytes.HasPrefix(body, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return codingZstd
	}
	return codingNone
}

// errRoom: more comes out than there is room for.
var errRoom = errors.New("server: the body does not fit")

// decode decompresses text into dst's capacity, and no further.
func decode(c coding, dst, text []byte) ([]byte, error) {
	free := decoders[c]()
	d := <-free
	defer func() { free <- d }()
	if err := d.Reset(bytes.NewReader(text)); err != nil {
		return nil, err
	}
	// A decoder is read to its own end, and after its first error no more: zstd's would go on with
	// the bytes whose checksum is missing.
	var beyond [1]byte
	for {
		room := dst[len(dst):cap(dst)]
		full := len(room) == 0
		if full {
			room = beyond[:]
		}
		n, err := d.Read(room)
		switch {
		case full && n > 0:
			return nil, errRoom
		case err != nil && !errors.Is(err, io.EOF):
			return nil, err
		}
		if dst = dst[:len(dst)+n]; err != nil {
			return dst, nil
		}
	}
}

// decoder reads what comes out of a compressed body.
type decoder interface {
	io.Reader
	Reset(body io.Reader) error
}

// maxDecoders of a coding run at a time; requests beyond wait, as for the core that they would
// need. It bounds what decoders hold, too: one of zstd keeps the widest window that it was asked
// for.
func maxDecoders() int { return min(8, 2*runtime.GOMAXPROCS(0)) }

// decoders hold the decoders that are free.
var decoders = [...]func() chan decoder{
	codingGzip: sync.OnceValue(func() chan decoder {
		return idle(func() decoder { return new(gzip.Reader) })
	}),
	codingZstd: sync.OnceValue(func() chan decoder {
		return idle(func() decoder {
			return must(zstd.NewReader(nil, zstd.WithDecoderConcurrency(1),
				zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(zstdWindow)))
		})
	}),
}

func idle(fresh func() decoder) chan decoder {
	free := make(chan decoder, maxDecoders())
	for range cap(free) {
		free <- fresh()
	}
	return free
}
