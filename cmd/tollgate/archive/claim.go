package archive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"tollgate/cluster/backup"
)

// claimFile says whose backups a store has, where a cluster without an identity makes them: all
// such clusters have the same names.
const claimFile = "cluster.json"

// claim names a cluster by the data folders of its members.
type claim struct {
	Folders []string `json:"folders"`
}

// ErrOtherCluster means that a store has the backups of another cluster.
var ErrOtherCluster = errors.New("the backups here are those of another cluster")

// Claim makes sure that a store is that of a cluster without an identity, whose members have these
// data folders: the first one that comes has it, and goes on as long as one of its folders is one
// of before. A cluster with an identity has names of its own, and may come, too. Where the folders
// are not known yet, nothing is claimed.
func Claim(
	ctx context.Context, s Store, cluster string, folders []string,
) (claimed bool, err error) {
	if cluster != "" {
		return true, nil
	}
	if len(folders) == 0 {
		return false, nil
	}
	err = claimFor(ctx, s, folders)
	return err == nil, err
}

func claimFor(ctx context.Context, s Store, folders []string) error {
	folders = slices.Sorted(slices.Values(folders))
	isOwn := func(folder string) bool { return slices.Contains(folders, folder) }
	kept, err := readClaim(ctx, s)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return fmt.Errorf("%s: %w", s.Name(claimFile), err)
	case slices.Equal(kept.Folders, folders):
		return nil
	case !slices.ContainsFunc(kept.Folders, isOwn):
		return fmt.Errorf("%w: give this one a place of its own; if all its machines were replaced at "+
			"once, remove %s", ErrOtherCluster, s.Name(claimFile))
	}
	text, err := json.Marshal(claim{folders})
	if err != nil {
		return err
	}
	if err = s.Begin(ctx, func(file string) bool { return file == claimFile }); err != nil {
		return err
	}
	return s.Replace(ctx, claimFile, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// maxClaim bounds the file in bytes: a cluster has few members.
const maxClaim = 64 << 10

func readClaim(ctx context.Context, s Store) (c claim, err error) {
	src, _, err := s.Read(ctx, claimFile)
	if err != nil {
		return c, err
	}
	text, err := io.ReadAll(io.LimitReader(src, maxClaim))
	if err = errors.Join(err, src.Close()); err != nil {
		return c, err
	}
	if json.Unmarshal(text, &c) != nil || len(c.Folders) == 0 {
		return c, fmt.Errorf("%w: remove it if this cluster alone makes backups here", backup.ErrDamaged)
	}
	return c, nil
}
