package cluster

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"tollgate/engine"
)

const (
	// folderFile says what the data folder is.
	folderFile = "folder.json"
	// folderFormat is the version of the layout of a data folder: the one that this build reads and
	// writes. Formats 1 to 5 are of builds before the first release, which nothing reads any more.
	folderFormat = 6
	// restoringMark is there as long as a restore is not finished.
	restoringMark = "restoring"
)

var (
	// ErrNewerData means that a data folder was written by a newer build. Nothing was changed.
	ErrNewerData = errors.New("cluster: the data folder was written by a newer version")
	// ErrOlderData means that a data folder was written by a build from before the first release.
	// Nothing was changed.
	ErrOlderData = errors.New("cluster: the data folder was written by an unreleased build")
	// ErrHalfRestored means that a restore into the folder was not finished.
	ErrHalfRestored = errors.New("cluster: a restore into this folder was not finished")
	// ErrOtherCluster means that a data folder belongs to another cluster than the configuration
	// names.
	ErrOtherCluster = errors.New("cluster: the data folder belongs to another cluster")
)

// folder is the content of a data folder's folder.json.
type folder struct {
	// Format is folderFormat.
	Format int `json:"format"`
	// Cluster is the identity of the cluster, in hex; "" of one that was never restored.
	Cluster string `json:"cluster,omitempty"`
	// Version is the cluster version that this node has seen agreed on.
	Version uint32 `json:"version,omitempty"`
}

// NewIdentity makes the identity of a cluster: 32 hex digits, at random.
func NewIdentity() string {
	var id [identityBytes]byte
	rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

// openFolder checks whether this build can use a folder, and returns the cluster that it belongs
// to: the wanted one if the folder has no past. It changes nothing; a Format of 0 is yet to be
// written.
func openFolder(dir, wanted string, known uint32) (folder, error) {
	f, err := readFolder(dir)
	switch {
	case err != nil:
		return f, err
	case f.Format > 0:
		return f, f.fits(dir, wanted, known)
	}
	if wanted != "" {
		if err := requireEmpty(dir); err != nil {
			return f, fmt.Errorf("%w: %w", ErrOtherCluster, err)
		}
	}
	return folder{Cluster: wanted}, nil
}

// LookAtFolder reports whether a data folder has a past. The error says why a node of that name and
// of the wanted cluster (an identity, or "") would not start in it. LookAtFolder changes nothing
// and does not read the groups' files.
func LookAtFolder(dir, node, wanted string, join bool) (begun bool, err error) {
	f, err := readFolder(dir)
	switch {
	case err != nil:
		return false, err
	case f.Format > 0:
		if err = f.fits(dir, wanted, engine.Version); err != nil {
			return false, err
		}
	case wanted != "":
		if err = requireEmpty(dir); err != nil {
			return false, fmt.Errorf("%w: %w", ErrOtherCluster, err)
		}
		if !join {
			return false, notRestored(&Config{NodeID: node, Cluster: wanted})
		}
	}
	i, err := readIdentity(dir, node)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return i.Begun, errors.Join(err, lookAtPast(dir))
}

// fits says why this build, or a node of the cluster that is wanted, cannot use a folder.
func (f folder) fits(dir, wanted string, known uint32) error {
	switch {
	case f.Format > folderFormat:
		return fmt.Errorf("%w: %s has format %d, this build knows up to %d: "+
			"start the version that wrote it, or empty the folder and let this node join again",
			ErrNewerData, dir, f.Format, folderFormat)
	case f.Format < folderFormat:
		return fmt.Errorf("%w: %s has format %d, this build reads %d: "+
			"start the build that wrote it, or begin with an empty folder",
			ErrOlderData, dir, f.Format, folderFormat)
	case f.Version > known:
		return fmt.Errorf("%w: the cluster of %s agreed on version %d, this build knows up to %d: "+
			"start the version that ran here, or a newer one", ErrNewerData, dir, f.Version, known)
	case wanted != "" && wanted != f.Cluster:
		return fmt.Errorf("%w: it is of cluster %q, the configuration names %q",
			ErrOtherCluster, f.Cluster, wanted)
	}
	return nil
}

// readFolder reads folder.json; without one, Format is 0.
func readFolder(dir string) (f folder, err error) {
	if _, err := os.Stat(filepath.Join(dir, restoringMark)); err == nil {
		return f, fmt.Errorf("%w: empty %s and restore again", ErrHalfRestored, dir)
	}
	text, err := os.ReadFile(filepath.Join(dir, folderFile))
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return f, fmt.Errorf("cluster: data folder: %w", err)
	}
	if err := json.Unmarshal(text, &f); err != nil || f.Format < 1 || checkIdentity(f.Cluster) != nil {
		return f, fmt.Errorf("%w: %s in %s cannot be read: "+
			"take it from another node of the cluster, it is the same there", ErrDamaged, folderFile, dir)
	}
	return f, nil
}

func (f folder) write(dir string) error {
	f.Format = folderFormat
	return replaceJSON(dir, folderFile, f)
}

// requireEmpty returns an error if a data folder has data of a node. A process's lock,
// configuration and log do not count, nor does lost+found.
func requireEmpty(dir string) error {
	found, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cluster: data folder: %w", err)
	}
	for _, f := range found {
		switch f.Name() {
		case "LOCK", "config.yaml", "node.log", "lost+found":
		default:
			return fmt.Errorf("%s is not empty: it has %s", dir, f.Name())
		}
	}
	return nil
}

// notRestored is the error of a node that should belong to a cluster with an identity but has none
// of its data. If it started anyway, an empty majority could elect a leader and acknowledge writes
// that are lost when the restored nodes arrive.
func notRestored(c *Config) error {
	return fmt.Errorf("%w: nothing was changed; restore this node with `tollgate restore --cluster "+
		"%s`, or start it with `join: true` and run `tollgate cluster join %s` on a node of that "+
		"cluster", ErrNotRestored, c.Cluster, c.NodeID)
}

// ErrNotRestored means that a cluster with an identity cannot begin with an empty folder: such a
// cluster begins with a restore.
var ErrNotRestored = errors.New("cluster: the data folder is empty, and the configuration names " +
	"the identity of a restored cluster (cluster:)")
