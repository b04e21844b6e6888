package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
)

const (
	// headBytes is the length of what precedes the first frame: magic, version, zero.
	headBytes = 8
	// frameHead and frameTail surround a payload: kind and length; CRC32C.
	frameHead = 5
	frameTail = 4
	// chunkBytes is how much of a state, a segment or a log one frame has at most.
	chunkBytes = 1 << 20
	// maxManifest bounds a manifest: some 400,000 segments, that is 3 TiB.
	maxManifest = 64 << 20
)

// Kinds of frames. Numbers are never reused.
const (
	frameManifest byte = 1 // JSON; the first frame
	frameState    byte = 2 // a piece of a group's state
	frameSegment  byte = 3 // a piece of a journal segment
	frameEnd      byte = 4 // SHA-256 of every byte before this frame; the last one
	frameEntries  byte = 5 // entries of a log
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// framing writes a file of frames, one of which it holds in memory. The first error stays.
type framing struct {
	w      io.Writer
	sum    hash.Hash
	frame  []byte
	frames uint64
	err    error
}

// begin writes the head and the manifest.
func (f *framing) begin(w io.Writer, magic string, version uint16, manifest []byte) error {
	if len(manifest) > maxManifest {
		return fmt.Errorf("backup: a manifest of %d bytes: %d is the most", len(manifest), maxManifest)
	}
	f.w, f.sum = w, sha256.New()
	head := binary.LittleEndian.AppendUint16([]byte(magic), version)
	f.write(append(head, 0, 0))
	f.put(frameManifest, manifest)
	return f.err
}

// put writes one frame, whose checksum covers its place among the frames as well.
func (f *framing) put(kind byte, payload []byte) {
	f.frame = append(f.frame[:0], kind)
	f.frame = binary.LittleEndian.AppendUint32(f.frame, uint32(len(payload)))
	f.frame = append(f.frame, payload...)
	f.frame = binary.LittleEndian.AppendUint32(f.frame, checksum(f.frames, f.frame))
	f.frames++
	f.write(f.frame)
}

// end writes the frame without which every reader refuses the file.
func (f *framing) end() error {
	f.put(frameEnd, f.sum.Sum(nil))
	return f.err
}

func (f *framing) write(p []byte) {
	if f.err != nil {
		return
	}
	f.sum.Write(p) // never fails
	if _, err := f.w.Write(p); err != nil {
		f.err = fmt.Errorf("backup: write: %w", err)
	}
}

// checksum is the CRC32C of a frame's place, from 0, and of its bytes.
func checksum(place uint64, frame []byte) uint32 {
	var at [8]byte
	binary.LittleEndian.PutUint64(at[:], place)
	return crc32.Update(crc32.Checksum(at[:], castagnoli), castagnoli, frame)
}

// frameReader reads a file of frames and checks it on the way. It holds one frame in memory.
type frameReader struct {
	src     io.Reader
	sum     hash.Hash
	frames  uint64
	payload []byte
}

// begin reads the head and the manifest. What is the file's own word for itself.
func (r *frameReader) begin(
	src io.Reader, magic, what string, newest uint16,
) (manifest []byte, err error) {
	r.src, r.sum = src, sha256.New()
	head := make([]byte, headBytes)
	if err := readFull(src, head); err != nil {
		if errors.Is(err, errEnds) {
			return nil, fmt.Errorf("%w: it ends in its head", ErrDamaged)
		}
		return nil, err
	}
	if string(head[:len(magic)]) != magic || head[6]|head[7] != 0 {
		return nil, fmt.Errorf("%w: it does not begin like a %s", ErrDamaged, what)
	}
	version := binary.LittleEndian.Uint16(head[len(magic):])
	if version == 0 {
		return nil, fmt.Errorf("%w: version 0", ErrDamaged)
	}
	if version > newest {
		return nil, fmt.Errorf("%w: format version %d, this build reads up to %d",
			ErrVersion, version, newest)
	}
	r.sum.Write(head)
	return r.next(frameManifest, maxManifest)
}

// end reads the last frame, and that nothing follows it: io.EOF if so.
func (r *frameReader) end() error {
	sum := r.sum.Sum(nil)
	said, err := r.next(frameEnd, sha256.Size)
	if err != nil {
		return err
	}
	if !bytes.Equal(said, sum) {
		return fmt.Errorf("%w: SHA-256 of the whole", ErrDamaged)
	}
	switch n, err := io.ReadFull(r.src, make([]byte, 1)); {
	case n > 0:
		return fmt.Errorf("%w: bytes follow its end", ErrDamaged)
	case err != io.EOF:
		return fmt.Errorf("backup: read: %w", err)
	}
	return io.EOF
}

// next reads one frame, whose payload is good until the next call.
func (r *frameReader) next(kind byte, limit uint32) ([]byte, error) {
	head := make([]byte, frameHead)
	if err := r.fill(head); err != nil {
		return nil, err
	}
	size := binary.LittleEndian.Uint32(head[1:])
	if head[0] != kind || size > limit {
		return nil, fmt.Errorf("%w: frame %d is of kind %d and %d bytes", ErrDamaged,
			r.frames, head[0], size)
	}
	frame := append(r.payload[:0], head...)
	for left := int(size) + frameTail; left > 0; { // in steps: a false length costs no memory
		step := min(left, chunkBytes)
		at := len(frame)
		frame = append(frame, make([]byte, step)...)
		if err := r.fill(frame[at:]); err != nil {
			return nil, err
		}
		left -= step
	}
	r.payload = frame
	body, tail := frame[:len(frame)-frameTail], frame[len(frame)-frameTail:]
	if checksum(r.frames, body) != binary.LittleEndian.Uint32(tail) {
		return nil, fmt.Errorf("%w: checksum of frame %d", ErrDamaged, r.frames)
	}
	r.sum.Write(frame)
	r.frames++
	return body[frameHead:], nil
}

func (r *frameReader) fill(p []byte) error {
	err := readFull(r.src, p)
	if errors.Is(err, errEnds) {
		return fmt.Errorf("%w: it ends in frame %d", ErrDamaged, r.frames)
	}
	return err
}

// errEnds means that what is read from ends: it, and not the way to it.
var errEnds = errors.New("backup: the file ends early")

// readFull fills p. An error that only wraps io.EOF is a connection's.
func readFull(src io.Reader, p []byte) error {
	switch _, err := io.ReadFull(src, p); {
	case err == nil:
		return nil
	case err == io.EOF || err == io.ErrUnexpectedEOF:
		return errEnds
	default:
		return fmt.Errorf("backup: read: %w", err)
	}
}
