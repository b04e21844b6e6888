package archive

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
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
// and that are as long as it says. Of a backup that cannot be read they are written again.
func (p *Plan) provenSegments(ctx context.Context, files []bucket.File) map[string]bool {
	bytes := map[string]int64{}
	for _, f := range files {
		if backup.IsSegment(f.Name) {
			bytes[f.Name] = f.Bytes
		}
	}
	proven := map[string]bool{}
	for _, b := range backupsAmong(files) {
		if !b.proven || len(bytes) == 0 {
			continue
		}
		list, err := p.of(ctx, b.Name)
		if err != nil {
			continue
		}
		for _, s := range list {
			file := s.file.Value()
			if size, there := bytes[file]; there && size == int64(s.bytes) {
				proven[file] = true
			}
		}
	}
	return proven
}

// pruneSegments deletes the segments that no backup lists, whatever its name, if it was proven or
// not. It deletes none, and warns, if it cannot read what one lists.
func (p *Plan) pruneSegments(ctx context.Context, files []bucket.File) (warning, err error) {
	unlisted, there := map[string]bool{}, map[string]bool{}
	for _, f := range files {
		there[f.Name] = true
		if backup.IsSegment(f.Name) {
			unlisted[f.Name] = true
		}
	}
	maps.DeleteFunc(p.lists, func(name string, _ []listed) bool { return !there[name] })
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
