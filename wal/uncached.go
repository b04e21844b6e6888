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
	direct directFile // nil if direct I/O is not supported
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
	u, err := uncached(f, flag&^(os.O_CREATE|os.O_TRUNC))
	if err == nil {
		return u, nil
	}
	err = errors.Join(err, f.Close())
	if flag&os.O_CREATE != 0 {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return nil, err
}

// uncached opens f a second time, past the page cache. If its name has been given to another file
// meanwhile, f alone is used: a read would mix the bytes of both.
func uncached(f *os.File, flag int) (uncachedFile, error) {
	u := uncachedFile{osFile: osFile{f}}
	direct, err := openDirect(f.Name(), flag)
	if refused(err) {
		return u, nil
	}
	if err != nil {
		return u, err
	}
	same, err := sameFile(f, direct)
	if !same || err != nil {
		return u, errors.Join(err, direct.Close())
	}
	u.direct = direct
	return u, nil
}

func sameFile(f, g *os.File) (bool, error) {
	of, err := f.Stat()
	if err != nil {
		return false, err
	}
	as, err := g.Stat()
	return err == nil && os.SameFile(of, as), err
}

// refused reports whether the file system does not support direct I/O, in general or for this
// piece.
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
	buffer := pieceBuffers.Get().(*pieceBuffer)
	defer pieceBuffers.Put(buffer)
	n, err := u.direct.ReadAt(buffer.bytes[:len(b)], offset)
	return copy(b, buffer.bytes[:n]), err
}

func (u uncachedFile) writePiece(b []byte, offset int64) (int, error) {
	if aligned(b) {
		return u.direct.WriteAt(b, offset)
	}
	buffer := pieceBuffers.Get().(*pieceBuffer)
	defer pieceBuffers.Put(buffer)
	return u.direct.WriteAt(buffer.bytes[:copy(buffer.bytes, b)], offset)
}

// Close implements io.Closer.
func (u uncachedFile) Close() error {
	if u.direct == nil {
		return u.osFile.Close()
	}
	return errors.Join(u.osFile.Close(), u.direct.Close())
}

// pieceBuffers pools aligned buffers; a piece of unaligned memory is copied through one.
var pieceBuffers = sync.Pool{New: func() any { return &pieceBuffer{Aligned(pieceBytes)} }}

type pieceBuffer struct{ bytes []byte }

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
