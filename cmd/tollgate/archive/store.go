package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"tollgate/cluster/backup"
	"tollgate/cmd/tollgate/bucket"
)

// Store is where backups are: a folder, or a bucket.
type Store interface {
	// Name is what a file is called from outside.
	Name(file string) string
	// List returns the files whose names begin with beginning.
	List(ctx context.Context, beginning string) ([]bucket.File, error)
	// Begin makes the place ready for files, and removes what crashes have left of those that are
	// selected.
	Begin(ctx context.Context, selected func(file string) bool) error
	// Write makes a file of what write writes, when it is whole. It leaves one that is there alone:
	// backup.ErrExists. Replace replaces it.
	Write(ctx context.Context, file string, write func(io.Writer) error) error
	Replace(ctx context.Context, file string, write func(io.Writer) error) error
	// Read opens a file; size is how long it is, -1 where that is not known.
	Read(ctx context.Context, file string) (src io.ReadCloser, size int64, err error)
	// SetAside takes a backup that was found damaged twice out of the list, and says what it does.
	SetAside(ctx context.Context, file string) (what string, err error)
	Remove(ctx context.Context, file string) error
}

// Open names the store of a folder, or of a bucket (s3://…), for which the environment has the
// credentials.
func Open(name string) (Store, error) {
	if !strings.HasPrefix(name, bucket.Scheme) {
		return Folder(name), nil
	}
	b, err := bucket.Open(name, os.Getenv)
	if err != nil {
		return nil, err
	}
	return Bucket{b}, nil
}

// FilesOf opens the files of a store.
func FilesOf(ctx context.Context, s Store) backup.Files {
	return func(file string) (io.ReadCloser, error) {
		src, _, err := s.Read(ctx, file)
		return src, err
	}
}

// Folder is a folder of this machine, which is made when absent.
type Folder string

// Name implements Store.
func (f Folder) Name(file string) string { return filepath.Join(string(f), file) }

// List implements Store.
func (f Folder) List(_ context.Context, beginning string) (files []bucket.File, err error) {
	found, err := os.ReadDir(string(f))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	for _, entry := range found {
		if !strings.HasPrefix(entry.Name(), beginning) {
			continue
		}
		info, err := os.Stat(f.Name(entry.Name()))
		if errors.Is(err, os.ErrNotExist) { // deleted meanwhile
			continue
		}
		if err != nil {
			return nil, err
		}
		files = append(files, bucket.File{Name: entry.Name(), Bytes: info.Size()})
	}
	return files, err
}

// Begin implements Store.
func (f Folder) Begin(ctx context.Context, selected func(file string) bool) error {
	if err := os.MkdirAll(string(f), 0o700); err != nil {
		return err
	}
	files, err := f.List(ctx, "")
	for _, file := range files {
		if whole, part := strings.CutSuffix(file.Name, partSuffix); part && selected(whole) {
			err = errors.Join(err, os.Remove(f.Name(file.Name)))
		}
	}
	return err
}

// Write implements Store.
func (f Folder) Write(_ context.Context, file string, write func(io.Writer) error) error {
	return backup.WriteFile(f.Name(file), write)
}

// Replace implements Store.
func (f Folder) Replace(_ context.Context, file string, write func(io.Writer) error) error {
	return backup.ReplaceFile(f.Name(file), write)
}

// Read implements Store.
func (f Folder) Read(ctx context.Context, file string) (io.ReadCloser, int64, error) {
	src, err := os.Open(f.Name(file))
	if err != nil {
		return nil, 0, err
	}
	size := int64(-1)
	if info, err := src.Stat(); err == nil {
		size = info.Size()
	}
	return reading{ctx, src}, size, nil
}

// reading ends with its context: a node that stops does not read a backup to its end.
type reading struct {
	ctx context.Context
	io.ReadCloser
}

// Read implements io.Reader.
func (r reading) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.ReadCloser.Read(p)
}

// SetAside implements Store.
func (f Folder) SetAside(_ context.Context, file string) (string, error) {
	name := f.Name(file)
	return "has the name " + name + damagedSuffix + " now: look at the disk",
		os.Rename(name, name+damagedSuffix)
}

// Remove implements Store.
func (f Folder) Remove(_ context.Context, file string) error {
	if err := os.Remove(f.Name(file)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil // already deleted, perhaps by another node
}

// Bucket is a bucket of an object store.
type Bucket struct{ *bucket.Bucket }

// Begin implements Store.
func (b Bucket) Begin(ctx context.Context, selected func(file string) bool) error {
	return b.RemoveParts(ctx, selected)
}

// Write implements Store.
func (b Bucket) Write(ctx context.Context, file string, write func(io.Writer) error) error {
	there, err := b.Exists(ctx, file)
	if there {
		err = fmt.Errorf("%w: %s; nothing was written", backup.ErrExists, b.Name(file))
	}
	if err != nil {
		return err
	}
	return b.Bucket.Write(ctx, file, write)
}

// Replace implements Store.
func (b Bucket) Replace(ctx context.Context, file string, write func(io.Writer) error) error {
	return b.Bucket.Write(ctx, file, write)
}

// SetAside removes the file: a bucket renames nothing.
func (b Bucket) SetAside(ctx context.Context, file string) (string, error) {
	return "was removed from the bucket", b.Remove(ctx, file)
}
