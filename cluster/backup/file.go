package backup

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"tollgate/engine"
)

// partSuffix ends the name of a file that is being written.
const partSuffix = ".part"

// ErrExists means that there is a file of that name, which was left alone.
var ErrExists = errors.New("backup: there is a file of that name")

// WriteFile makes a file of what write writes. The file has its name only when it is whole and on
// disk: until then, and after an error or a crash, it is name.part at most. One that is there
// is left alone.
func WriteFile(name string, write func(io.Writer) error) error {
	if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(fmt.Errorf("%w: %s; nothing was written", ErrExists, name), err)
	}
	return ReplaceFile(name, write)
}

// ReplaceFile is WriteFile where one that is there is replaced, once the new one is whole.
func ReplaceFile(name string, write func(io.Writer) error) error {
	f, err := os.OpenFile(name+partSuffix, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncFolder(filepath.Dir(name))
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	return errors.Join(d.Sync(), d.Close())
}

// Beside opens the files of a folder.
func Beside(folder string) Files {
	return func(file string) (io.ReadCloser, error) { return os.Open(filepath.Join(folder, file)) }
}

// CheckFile is Check of a file.
func CheckFile(
	name string, files Files, machine func(shard uint16) engine.Machine,
) (*Manifest, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("backup: %w", err)
	}
	m, err := Check(bufio.NewReaderSize(f, chunkBytes), files, machine)
	return m, errors.Join(err, f.Close())
}
