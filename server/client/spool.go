package client

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"sync"
	"time"
)

// The spool is a file of audit blocks, first in first out:
//
//	0   8  "TGSPOOL1"
//	8   8  offset of the oldest block, little endian
//	16     blocks: length (4), CRC-32C of the payload (4), payload
//
// It is emptied only as a whole, when its last block is in the log. A killed process loses nothing
// that was appended; a power cut may lose the last spoolSync.
const (
	spoolMagic  = "TGSPOOL1"
	spoolHeader = 16
	spoolFrame  = 8
	spoolSync   = 100 * time.Millisecond
)

// ErrSpool says that the audit spool in the data folder was not written by this version, or has a
// damaged head.
var ErrSpool = errors.New(
	"the file is not a spool of this version; move it away to start without it")

var (
	errSpoolFull = errors.New("client: the audit spool is full")
	// errSpoolDamaged says that the oldest block is not what was stored: see setAside.
	errSpoolDamaged = errors.New("client: a block of the audit spool is damaged")
	castagnoli      = crc32.MakeTable(crc32.Castagnoli)
)

// spool has one appender and one drainer.
type spool struct {
	mu       sync.Mutex
	file     *os.File
	limit    int64
	from, to int64
	blocks   uint64
	synced   time.Time
}

func openSpool(path string, limit int64) (*spool, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("client: audit spool: %w", err)
	}
	s := &spool{file: file, limit: limit}
	if err := s.recover(); err != nil {
		return nil, errors.Join(fmt.Errorf("client: audit spool: %w", err), file.Close())
	}
	return s, nil
}

// recover finds the blocks of an earlier process. What follows the last whole block was being
// written when that process ended, and is cut.
func (s *spool) recover() error {
	info, err := s.file.Stat()
	if err != nil {
		return err
	}
	var header [spoolHeader]byte
	if info.Size() < spoolHeader {
		return s.clear()
	}
	if _, err := s.file.ReadAt(header[:], 0); err != nil {
		return err
	}
	from := int64(binary.LittleEndian.Uint64(header[8:]))
	if string(header[:8]) != spoolMagic || from < spoolHeader || from > info.Size() {
		return ErrSpool
	}
	s.from, s.to = from, info.Size()
	at := from
	for at < s.to {
		payload, err := s.readAt(at, nil)
		if err != nil {
			break
		}
		at += int64(spoolFrame + len(payload))
		s.blocks++
	}
	s.to = at
	if s.blocks == 0 {
		return s.clear()
	}
	return s.file.Truncate(at)
}

// clear empties the file; afterwards no block that was in the log already can come back.
func (s *spool) clear() error {
	header := binary.LittleEndian.AppendUint64([]byte(spoolMagic), spoolHeader)
	if _, err := s.file.WriteAt(header, 0); err != nil {
		return err
	}
	if err := s.file.Truncate(spoolHeader); err != nil {
		return err
	}
	s.from, s.to, s.blocks = spoolHeader, spoolHeader, 0
	return s.file.Sync()
}

func (s *spool) readAt(at int64, dst []byte) ([]byte, error) {
	var frame [spoolFrame]byte
	if _, err := s.file.ReadAt(frame[:], at); err != nil {
		return dst, err
	}
	length := int64(binary.LittleEndian.Uint32(frame[:]))
	if length == 0 || length > s.to-at-spoolFrame {
		return dst, errSpoolDamaged
	}
	start := len(dst)
	dst = append(dst, make([]byte, length)...)
	if _, err := s.file.ReadAt(dst[start:], at+spoolFrame); err != nil {
		return dst, err
	}
	if crc32.Checksum(dst[start:], castagnoli) != binary.LittleEndian.Uint32(frame[4:]) {
		return dst, errSpoolDamaged
	}
	return dst, nil
}

func (s *spool) empty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.blocks == 0
}

// append stores one block behind the others.
func (s *spool) append(payload []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.to+int64(spoolFrame+len(payload)) > s.limit {
		return errSpoolFull
	}
	frame := make([]byte, 0, spoolFrame+len(payload))
	frame = binary.LittleEndian.AppendUint32(frame, uint32(len(payload)))
	frame = binary.LittleEndian.AppendUint32(frame, crc32.Checksum(payload, castagnoli))
	if _, err := s.file.WriteAt(append(frame, payload...), s.to); err != nil {
		return err
	}
	s.to += int64(spoolFrame + len(payload))
	s.blocks++
	if now := time.Now(); now.Sub(s.synced) >= spoolSync {
		s.synced = now
		return s.file.Sync()
	}
	return nil
}

// head reads the oldest block.
func (s *spool) head(dst []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.readAt(s.from, dst)
}

// advance drops the oldest block.
func (s *spool) advance() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.blocks == 1 {
		return s.clear()
	}
	var length [4]byte
	if _, err := s.file.ReadAt(length[:], s.from); err != nil {
		return err
	}
	next := s.from + spoolFrame + int64(binary.LittleEndian.Uint32(length[:]))
	if _, err := s.file.WriteAt(binary.LittleEndian.AppendUint64(nil, uint64(next)), 8); err != nil {
		return err
	}
	s.from = next
	s.blocks--
	return nil
}

// setAside takes the oldest block out of the way, which is damaged: no further attempt would read
// it, and everything behind it would wait for ever. Its bytes go to a file beside the spool, for
// whoever wants to know what is missing. Where not even its length makes sense, nothing behind it
// can be found, and all of the spool goes there. It returns how many blocks that were.
func (s *spool) setAside() (blocks uint64, err error) {
	s.mu.Lock()
	var frame [spoolFrame]byte
	_, err = s.file.ReadAt(frame[:], s.from)
	length := spoolFrame + int64(binary.LittleEndian.Uint32(frame[:]))
	whole := err == nil && length > spoolFrame && length <= s.to-s.from
	if !whole {
		length = s.to - s.from
	}
	if err = errors.Join(err, s.keepDamaged(length)); err != nil {
		s.mu.Unlock()
		return 0, err
	}
	if !whole {
		blocks = s.blocks
		err = s.clear()
		s.mu.Unlock()
		return blocks, err
	}
	s.mu.Unlock()
	return 1, s.advance()
}

// keepDamaged appends the oldest bytes of the spool to the file of what was damaged.
func (s *spool) keepDamaged(length int64) error {
	file, err := os.OpenFile(s.file.Name()+".damaged", os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, io.NewSectionReader(s.file, s.from, length))
	return errors.Join(err, file.Sync(), file.Close())
}

func (s *spool) size() (bytes, blocks uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return uint64(s.to - s.from), s.blocks
}

// Close makes what is left durable.
func (s *spool) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.file.Sync(), s.file.Close())
}
