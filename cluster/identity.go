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
)

// ErrOtherNode means that a data folder belongs to another node than the configuration names.
var ErrOtherNode = errors.New("cluster: the data folder is that of node")

// identityFile names the node that a folder belongs to.
const identityFile = "node.json"

// diskBytes is the length of a folder's own number.
const diskBytes = 8

// identity is the content of a folder's node.json. Disk is drawn when the folder is first used. The
// members remember it, so they can tell an emptied folder from the one that it replaces, whose
// promises and entries it does not have (trap 16).
type identity struct {
	Node string `json:"node"`
	Disk string `json:"disk"`
	// Begun reports whether the groups have stored data: a group without data has lost it.
	Begun bool `json:"begun"`
}

// openIdentity reads the identity of a folder, or draws a fresh one without saving it.
func openIdentity(dir, node string) (i identity, fresh bool, err error) {
	i, err = readIdentity(dir, node)
	if !errors.Is(err, fs.ErrNotExist) {
		return i, false, err
	}
	number := make([]byte, diskBytes)
	rand.Read(number) // never fails
	return identity{Node: node, Disk: hex.EncodeToString(number)}, true, nil
}

// readIdentity reads the identity of a folder, which must be that node's; fs.ErrNotExist if it has
// none.
func readIdentity(dir, node string) (identity, error) {
	text, err := os.ReadFile(filepath.Join(dir, identityFile))
	if err != nil {
		return identity{}, fmt.Errorf("cluster: data folder: %w", err)
	}
	var i identity
	if err = json.Unmarshal(text, &i); err != nil || len(i.Disk) != 2*diskBytes {
		return identity{}, fmt.Errorf("%w: %s is damaged; nothing was changed; if the node is a "+
			"member, remove it from the cluster, empty its folder, and join again", ErrDamaged,
			filepath.Join(dir, identityFile))
	}
	if i.Node != node {
		return identity{}, fmt.Errorf("%w %q, not of %q: nothing was changed; give each node a folder "+
			"of its own", ErrOtherNode, i.Node, node)
	}
	return i, nil
}

// save writes the identity, durably.
func (i identity) save(dir string) error { return replaceJSON(dir, identityFile, i) }
