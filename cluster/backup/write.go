package backup

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
)

const (
	magic = "TGBK"
	// headBytes is the length of what precedes the first frame: magic, version, zero.
	headBytes = 8
	// frameHead and frameTail surround a payload: kind and length; CRC32C.
	frameHead = 5
	frameTail = 4
	// chunkBytes is how much of a state or a segment one frame has at most.
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
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Writer writes a backup: what the manifest lists, in its order, then Close. It holds one frame in
// memory. The first error stays.
type Writer struct {
	w        io.Writer
	manifest *Manifest
	sum      hash.Hash
	frame    []byte
	frames   uint64
	group    int // whose turn it is
	segment  int // -1: its state
	err      error
}

// NewWriter begins a backup of what m lists.
func NewWriter(w io.Writer, m *Manifest) (*Writer, error) {
	text, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("backup: manifest: %w", err)
	}
	if _, err := parseManifest(text); err != nil {
		return nil, err
	}
	if len(text) > maxManifest {
		return nil, fmt.Errorf("backup: a manifest of %d bytes: %d is the most", len(text), maxManifest)
	}
	b := &Writer{w: w, manifest: m, sum: sha256.New(), segment: -1}
	head := binary.LittleEndian.AppendUint16([]byte(magic), FormatVersion)
	b.write(append(head, 0, 0))
	b.put(frameManifest, text)
	return b, b.err
}

// State writes the state of the group whose turn it is, which src must have to its last byte.
func (b *Writer) State(src io.Reader) error {
	if b.err == nil && (b.group >= len(b.manifest.Groups) || b.segment >= 0) {
		b.err = fmt.Errorf("backup: no state has its turn")
	}
	if b.err != nil {
		return b.err
	}
	b.copy(frameState, src, b.manifest.Groups[b.group].StateBytes)
	b.segment = 0
	b.turn()
	return b.err
}

// Segment writes the segment whose turn it is.
func (b *Writer) Segment(src io.Reader) error {
	if b.err == nil && (b.group >= len(b.manifest.Groups) || b.segment < 0) {
		b.err = fmt.Errorf("backup: no segment has its turn")
	}
	if b.err != nil {
		return b.err
	}
	b.copy(frameSegment, src, int64(b.manifest.Groups[b.group].Segments[b.segment].Length))
	b.segment++
	b.turn()
	return b.err
}

// turn moves on to the next group behind the last segment.
func (b *Writer) turn() {
	if b.manifest.Apart || b.segment >= len(b.manifest.Groups[b.group].Segments) {
		b.group, b.segment = b.group+1, -1
	}
}

// Close ends the backup, without which it is refused by every reader. It does not close what is
// written to.
func (b *Writer) Close() error {
	if b.err == nil && b.group < len(b.manifest.Groups) {
		b.err = fmt.Errorf("backup: closed before all was written")
	}
	b.put(frameEnd, b.sum.Sum(nil))
	return b.err
}

// copy writes size bytes of src in frames.
func (b *Writer) copy(kind byte, src io.Reader, size int64) {
	buf := make([]byte, min(size, chunkBytes))
	for size > 0 && b.err == nil {
		chunk := buf[:min(size, chunkBytes)]
		if _, err := io.ReadFull(src, chunk); err != nil {
			b.err = fmt.Errorf("backup: %d bytes are missing: %w", size, err)
			return
		}
		b.put(kind, chunk)
		size -= int64(len(chunk))
	}
}

// put writes one frame, whose checksum covers its place among the frames as well.
func (b *Writer) put(kind byte, payload []byte) {
	b.frame = append(b.frame[:0], kind)
	b.frame = binary.LittleEndian.AppendUint32(b.frame, uint32(len(payload)))
	b.frame = append(b.frame, payload...)
	b.frame = binary.LittleEndian.AppendUint32(b.frame, checksum(b.frames, b.frame))
	b.frames++
	b.write(b.frame)
}

func (b *Writer) write(p []byte) {
	if b.err != nil {
		return
	}
	b.sum.Write(p) // never fails
	if _, err := b.w.Write(p); err != nil {
		b.err = fmt.Errorf("backup: write: %w", err)
	}
}

// checksum is the CRC32C of a frame's place, from 0, and of its bytes.
func checksum(place uint64, frame []byte) uint32 {
	var at [8]byte
	binary.LittleEndian.PutUint64(at[:], place)
	return crc32.Update(crc32.Checksum(at[:], castagnoli), castagnoli, frame)
}
