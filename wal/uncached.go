package wal

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"syscall"
)

const (
	// blockBytes is the unit of what goes past the page cache: offset, length and address in memory
	// are multiples of it. No usual disk asks for more.
	blockBytes = 4 << 10
	// pieceBytes is how much of it one system call takes, so that an fsync of the log, on the same
	// disk, waits for little.
	pieceBytes = 1 << 20
)

// uncachedFile is a file of CreateUncached and OpenReadUncached. Its whole blocks go past the page
// cache, where the file system can, all other bytes through it; the kernel keeps both in step.
type uncachedFile struct {
	osFile
	direct directFile // nil where there is no such way
}

// directFile is the same file, open a second time with O_DIRECT.
type directFile interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
}

func openUncached(name string, flag int) (File, error) {
	f, err := os.OpenFile(filepath.Clean(name), flag, 0o600)
	if err != nil {
		return nil, err
	}
	u := uncachedFile{osFile: osFile{f}}
	direct, err := openDirect(f.Name(), flag&^(os.O_CREATE|os.O_TRUNC))
	switch {
	case err == nil:
		u.direct = direct
	case !refused(err):
		return nil, errors.Join(err, f.Close())
	}
	return u, nil
}

// refused reports whether a file system cannot do without its cache, or not for this piece.
func refused(err error) bool {
	return errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported)
}

// ReadAt implements io.ReaderAt.
func (u uncachedFile) ReadAt(b []byte, offset int64) (int, error) {
	return u.inPieces(b, offset, u.readPiece, u.osFile.ReadAt)
}

// WriteAt implements io.WriterAt. The bytes must not change before it returns.
func (u uncachedFile) WriteAt(b []byte, offset int64) (int, error) {
	return u.inPieces(b, offset, u.writePiece, u.osFile.WriteAt)
}

// inPieces calls direct with the whole blocks of b, and cached with what is left after them or
// after a piece that was refused.
func (u uncachedFile) inPieces(
	b []byte, offset int64, direct, cached func([]byte, int64) (int, error),
) (done int, err error) {
	for u.direct != nil && offset%blockBytes == 0 && len(b)-done >= blockBytes {
		piece := b[done : done+min(len(b)-done, pieceBytes)/blockBytes*blockBytes]
		n, err := direct(piece, offset)
		done, offset = done+n, offset+int64(n)
		if refused(err) || err == io.EOF { // the end may lie behind the file's last whole block
			break
		}
		if err != nil {
			return done, err
		}
	}
	if done == len(b) {
		return done, nil
	}
	n, err := cached(b[done:], offset)
	return done + n, err
}

func (u uncachedFile) readPiece(b []byte, offset int64) (int, error) {
	if aligned(b) {
		return u.direct.ReadAt(b, offset)
	}
	room := rooms.Get().(*room)
	defer rooms.Put(room)
	n, err := u.direct.ReadAt(room.bytes[:len(b)], offset)
	return copy(b, room.bytes[:n]), err
}

func (u uncachedFile) writePiece(b []byte, offset int64) (int, error) {
	if aligned(b) {
		return u.direct.WriteAt(b, offset)
	}
	room := rooms.Get().(*room)
	defer rooms.Put(room)
	return u.direct.WriteAt(room.bytes[:copy(room.bytes, b)], offset)
}

// Close implements io.Closer.
func (u uncachedFile) Close() error {
	if u.direct == nil {
		return u.osFile.Close()
	}
	return errors.Join(u.osFile.Close(), u.direct.Close())
}

// rooms have aligned memory for pieces from memory that is not.
var rooms = sync.Pool{New: func() any { return &room{Aligned(pieceBytes)} }}

type room struct{ bytes []byte }

// Aligned returns n bytes that an uncached file reads or writes without copying them.
func Aligned(n int) []byte {
	b := make([]byte, n+blockBytes)
	skip := int(-address(b) % blockBytes)
	return b[skip : skip+n : skip+n]
}

func aligned(b []byte) bool { return address(b)%blockBytes == 0 }

// address is where b lies. Go's collector moves nothing that is not on a stack, and what is given
// to a system call through an interface is not.
func address(b []byte) uintptr { return uintptr(reflect.ValueOf(b).UnsafePointer()) }
