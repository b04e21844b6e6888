package archive

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unique"

	"tollgate/cluster/backup"
	"tollgate/cmd/tollgate/bucket"
)

// listed is a segment's file that a backup lists, and how long it has to be.
type listed struct {
	file  unique.Handle[string]
	bytes uint32 // 1 GiB at most
}

// manifests are the segments that backups of the archive list, by their names: a backup of such a
// name is written once.
type manifests map[string][]listed

// of returns the segments that a backup, of any name, lists as files next to it.
func (p *Plan) of(ctx context.Context, name string) ([]listed, error) {
	if known, ok := p.lists[name]; ok {
		return known, nil
	}
	m, err := p.manifest(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Store.Name(name), err)
	}
	var list []listed
	for _, g := range m.Groups {
		for _, s := range g.Segments {
			if m.Apart {
				list = append(list, listed{unique.Make(s.File(g.Shard)), uint32(s.Length)})
			}
		}
	}
	if _, ours := begunAt(name); ours {
		if p.lists == nil {
			p.lists = manifests{}
		}
		p.lists[name] = list
	}
	return list, nil
}

// manifest reads what a backup lists.
func (p *Plan) manifest(ctx context.Context, file string) (m *backup.Manifest, err error) {
	src, _, err := p.Store.Read(ctx, file)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	r, err := backup.NewReader(bufio.NewReaderSize(src, 64<<10), FilesOf(ctx, p.Store))
	if err != nil {
		return nil, err
	}
	return r.Manifest(), nil
}

// provenSegments are the segments that need not be written again: those that a proven backup lists,
// and that are as long as it says. A backup that is damaged, or of which one is missing or is not,
// is proven no more: what is written in their place was not read back. One that cannot be read now
// proves none until the next start.
func (p *Plan) provenSegments(ctx context.Context, files []bucket.File) (map[string]bool, error) {
	bytes, there := map[string]int64{}, map[string]bool{}
	for _, f := range files {
		bytes[f.Name], there[f.Name] = f.Bytes, true
	}
	maps.DeleteFunc(p.lists, func(name string, _ []listed) bool { return !there[name] })
	proven := map[string]bool{}
	for _, b := range backupsAmong(files) {
		if !b.proven || slices.Contains(p.doubted, b.Name) {
			continue
		}
		list, err := p.of(ctx, b.Name)
		if err != nil && !damaged(err) {
			// What is written in place of its segments is not what it proved.
			p.doubted = append(p.doubted, b.Name)
			continue
		}
		whole := err == nil && !slices.ContainsFunc(list, func(s listed) bool {
			size, there := bytes[s.file.Value()]
			return !there || size != int64(s.bytes)
		})
		if !whole {
			if err := p.Store.Remove(ctx, b.Name+provenSuffix); err != nil {
				return nil, err
			}
			continue
		}
		for _, s := range list {
			proven[s.file.Value()] = true
		}
	}
	return proven, nil
}

// pruneSegments deletes the segments that no backup lists, whatever its name, if it was proven or
// not. It deletes none, and warns, if it cannot read what one lists.
func (p *Plan) pruneSegments(ctx context.Context, files []bucket.File) (warning, err error) {
	unlisted := map[string]bool{}
	for _, f := range files {
		if backup.IsSegment(f.Name) {
			unlisted[f.Name] = true
		}
	}
	if len(unlisted) == 0 {
		return nil, nil
	}
	for _, f := range files {
		if !strings.HasSuffix(f.Name, suffix) {
			continue
		}
		list, err := p.of(ctx, f.Name)
		if err != nil {
			return fmt.Errorf("no segment is deleted while it is not known which ones a backup needs: %w",
				err), nil
		}
		for _, s := range list {
			delete(unlisted, s.file.Value())
		}
	}
	for file := range unlisted {
		err = errors.Join(err, p.Store.Remove(ctx, file))
	}
	return nil, err
}
