package backup

import (
	"encoding/json"
	"fmt"
	"io"
)

const magic = "TGBK"

// Writer writes a backup: what the manifest lists, in its order, then Close. It holds one frame in
// memory. The first error stays.
type Writer struct {
	framing
	manifest *Manifest
	group    int // whose turn it is
	segment  int // -1: its state
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
	b := &Writer{manifest: m, segment: -1}
	return b, b.begin(w, magic, FormatVersion, text)
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
	return b.end()
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
