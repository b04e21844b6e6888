// Package devdata is the data folder of `tollgate dev`: which files lie in it, who may touch it at
// a time, and the file dev.json from which other commands learn addresses and keys.
package devdata

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Folder is the path of a data folder.
type Folder string

// Keys are the keys of a development cluster. AdminKey is made before the first node starts, the
// others as soon as the nodes can serve.
type Keys struct {
	AdminKey   string `json:"adminKey"`
	SandboxKey string `json:"sandboxKey"`
	LiveKey    string `json:"liveKey"`
	// ReadKey belongs to the sandbox and may not write.
	ReadKey string `json:"readKey"`
	// MailboxKey approves sign-ins of agents at the local identity provider.
	MailboxKey string `json:"mailboxKey,omitempty"`
}

// Running is what dev.json says: a cluster that is ready, and how to reach it.
type Running struct {
	Account string `json:"account"`
	Keys
	Nodes []Node `json:"nodes"`
	// SampleProduct is the URL of the sample product; empty where it is not served.
	SampleProduct string `json:"sampleProduct,omitempty"`
	// Identity is the URL of the local identity provider; empty where it is not served.
	Identity string `json:"identity,omitempty"`
}

// Node is one node process. Addresses are host:port.
type Node struct {
	ID   string `json:"id"`
	HTTP string `json:"http"`
	Ops  string `json:"ops"`
	Raft string `json:"raft"`
	PID  int    `json:"pid"`
}

// File is dev.json.
func (f Folder) File() string { return filepath.Join(string(f), "dev.json") }

// KeysFile keeps the keys from one start to the next.
func (f Folder) KeysFile() string { return filepath.Join(string(f), "keys.json") }

// Certificates is the folder of the nodes' certificates.
func (f Folder) Certificates() string { return filepath.Join(string(f), "certs") }

// Mails is where mails are kept that would be sent elsewhere.
func (f Folder) Mails() string { return filepath.Join(string(f), "mails") }

// NodeFolder is where a node keeps its data.
func (f Folder) NodeFolder(id string) string { return filepath.Join(string(f), id) }

// NodeConfig is a node's configuration file.
func (f Folder) NodeConfig(id string) string {
	return filepath.Join(f.NodeFolder(id), "config.yaml")
}

// NodeLog is where a node's output goes.
func (f Folder) NodeLog(id string) string { return filepath.Join(f.NodeFolder(id), "node.log") }

// Load reads dev.json.
func (f Folder) Load() (Running, error) {
	var r Running
	err := readJSON(f.File(), &r)
	if errors.Is(err, fs.ErrNotExist) {
		return r, fmt.Errorf("%s does not exist: is `tollgate dev` running there?", f.File())
	}
	return r, err
}

// Save writes dev.json in one step.
func (f Folder) Save(r Running) error { return writeJSON(f.File(), r) }

// Remove removes dev.json: it stands for a cluster that is ready.
func (f Folder) Remove() error {
	if err := os.Remove(f.File()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("data folder: %w", err)
	}
	return nil
}

// LoadKeys reads the keys; none exist before the first start.
func (f Folder) LoadKeys() (Keys, error) {
	var k Keys
	err := readJSON(f.KeysFile(), &k)
	if errors.Is(err, fs.ErrNotExist) {
		return k, nil
	}
	return k, err
}

// SaveKeys writes the keys in one step.
func (f Folder) SaveKeys(k Keys) error { return writeJSON(f.KeysFile(), k) }

// SetPID writes the process of a node that was started again into dev.json.
func (f Folder) SetPID(id string, pid int) error {
	unlock, err := Lock(filepath.Join(string(f), "dev.json.lock"), true)
	if err != nil {
		return err
	}
	r, err := f.Load()
	for i := range r.Nodes {
		if err == nil && r.Nodes[i].ID == id {
			r.Nodes[i].PID = pid
			err = f.Save(r)
		}
	}
	return errors.Join(err, unlock())
}

func readJSON(file string, v any) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	if err = json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

func writeJSON(file string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return WriteFile(file, append(text, '\n'))
}

// WriteFile replaces a file in one step: a reader sees the old content or the new, also after a
// crash. Only its owner may read it.
func WriteFile(file string, content []byte) error {
	temporary, err := os.CreateTemp(filepath.Dir(file), ".new-*") // mode 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	_, err = temporary.Write(content)
	if err == nil {
		err = temporary.Sync()
	}
	if err = errors.Join(err, temporary.Close()); err == nil {
		err = os.Rename(temporary.Name(), file)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", file, errors.Join(err, os.Remove(temporary.Name())))
	}
	folder, err := os.Open(filepath.Dir(file))
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	if err = errors.Join(folder.Sync(), folder.Close()); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return nil
}

// ErrLocked means that another process holds a lock.
var ErrLocked = errors.New("in use by another process")

// Lock takes a file's lock, which ends with the process at the latest, and writes the process id
// into it. With wait it waits for its turn, otherwise the error wraps ErrLocked.
func Lock(file string, wait bool) (unlock func() error, err error) {
	if err = os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	held, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	how := unix.LOCK_EX
	if !wait {
		how |= unix.LOCK_NB
	}
	if err = unix.Flock(int(held.Fd()), how); err == nil {
		err = errors.Join(held.Truncate(0), writeAt(held, strconv.Itoa(os.Getpid())))
	} else if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrLocked
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", file, err), held.Close())
	}
	return held.Close, nil
}

func writeAt(file *os.File, text string) error {
	_, err := file.WriteAt([]byte(text), 0)
	if err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// NodeLock is the file that a node process locks as long as it runs.
func NodeLock(nodeFolder string) string { return filepath.Join(nodeFolder, "LOCK") }

// Holder is the process that holds a lock, 0 when none does.
func Holder(file string) (int, error) {
	unlock, err := Lock(file, false)
	if err == nil {
		return 0, unlock()
	}
	if !errors.Is(err, ErrLocked) {
		return 0, err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, fmt.Errorf("lock: %w", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("lock %s: %w", file, err)
	}
	return pid, nil
}
