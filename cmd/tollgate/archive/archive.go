// Package archive is the folder, or bucket, of a node's scheduled backups: when the next one is
// due, making it, and which old ones go once the new one is proven. Its names say when each was
// begun, so it needs no memory of its own: after a restart, or on another node, the files are
// asked.
package archive

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"tollgate/cluster/backup"
)

// Names of backups: tollgate-20261121T031500Z.tgb.
const (
	prefix     = "tollgate-"
	suffix     = ".tgb"
	stampForm  = "20060102T150405Z"
	partSuffix = suffix + ".part"
	// damagedSuffix is added to the name of a backup that is not what was written.
	damagedSuffix = ".damaged"
)

// Plan says when backups are made and how many stay.
type Plan struct {
	// Store is where they are.
	Store Store
	// Every is the time between two backups. Daily, when not negative, is a time of day in UTC, as
	// what has passed since midnight, and counts instead.
	Every, Daily time.Duration
	// Apart keeps the segments of the journal as files of their own, which later backups do not write
	// again: they never change.
	Apart bool
	// Keep is how many of the newest always stay; of the others, those go that are older than KeepFor.
	Keep    int
	KeepFor time.Duration
}

// Backup is one file of the archive; List has its name within the store, Make its whole name.
type Backup struct {
	Name  string
	Begun time.Time
}

// List returns the backups of the store, the newest first. Other files are none.
func (p *Plan) List(ctx context.Context) ([]Backup, error) {
	files, err := p.Store.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("backups: %w", err)
	}
	var list []Backup
	for _, f := range files {
		if begun, ok := begunAt(f, suffix); ok {
			list = append(list, Backup{f, begun})
		}
	}
	slices.SortFunc(list, func(a, b Backup) int { return b.Begun.Compare(a.Begun) })
	return list, nil
}

func begunAt(name, suffix string) (time.Time, bool) {
	text, ours := strings.CutPrefix(name, prefix)
	text, ends := strings.CutSuffix(text, suffix)
	begun, err := time.Parse(stampForm, text)
	return begun, ours && ends && err == nil
}

// Due is when the next backup is due: at once if there is none. One of the future, from a clock
// that was set back since, does not count.
func (p *Plan) Due(list []Backup, now time.Time) time.Time {
	past := slices.IndexFunc(list, func(b Backup) bool { return !b.Begun.After(now) })
	if past < 0 {
		return now
	}
	last := list[past].Begun
	if p.Daily < 0 {
		return last.Add(p.Every)
	}
	due := last.Truncate(24 * time.Hour).Add(p.Daily) // days of UTC begin at multiples of 24 h
	if !due.After(last) {
		due = due.Add(24 * time.Hour)
	}
	return due
}

// Write writes a backup. Where keep is set it gets the segments: see cluster.BackupOptions.
type Write func(ctx context.Context, w io.Writer, keep Keep) error

// Keep keeps a segment as a file of its own, unless there is one.
type Keep func(file string, read func() ([]byte, error)) error

// Make makes a backup now, reads back from the store to its last byte what was written, and only
// then deletes those that need not stay. After an error every old one is still there.
func (p *Plan) Make(
	ctx context.Context, now time.Time, write Write,
) (made Backup, bytes int64, err error) {
	if err := p.Store.Begin(ctx, begins); err != nil {
		return made, 0, fmt.Errorf("backups: %w", err)
	}
	var apart apart
	var keep Keep
	if p.Apart {
		if apart, err = p.segments(ctx); err != nil {
			return made, 0, err
		}
		keep = func(file string, read func() ([]byte, error)) error {
			return apart.keep(ctx, p.Store, file, read)
		}
	}
	begun := now.UTC().Truncate(time.Second)
	file := prefix + begun.Format(stampForm) + suffix
	err = p.Store.Write(ctx, file, func(w io.Writer) error { return write(ctx, w, keep) })
	if err != nil {
		return made, 0, fmt.Errorf("no backup was made; the old ones stay: %w", err)
	}
	m, err := p.check(ctx, file, apart.there)
	switch {
	case errors.Is(err, backup.ErrDamaged), errors.Is(err, fs.ErrNotExist):
		damaged, moved := p.Store.SetAside(ctx, file)
		return made, 0, fmt.Errorf("the backup is not what was written, and has the name %s now; "+
			"the old ones stay; look at the disk: %w", damaged, errors.Join(err, moved))
	case err != nil:
		return made, 0, fmt.Errorf("%s was made, and could not be read back; the old ones stay: %w",
			p.Store.Name(file), err)
	}
	return Backup{p.Store.Name(file), begun}, m.Bytes(), p.prune(ctx, now)
}

// check reads a backup to its last byte, and its segments but for those that were there before.
func (p *Plan) check(
	ctx context.Context, file string, there map[string]bool,
) (*backup.Manifest, error) {
	src, _, err := p.Store.Read(ctx, file)
	if err != nil {
		return nil, err
	}
	open := FilesOf(ctx, p.Store)
	m, err := backup.Check(bufio.NewReaderSize(src, 1<<20), func(file string) (io.ReadCloser, error) {
		if there[file] {
			return nil, nil
		}
		return open(file)
	}, nil)
	return m, errors.Join(err, src.Close())
}

// apart are the segments that were there before a backup.
type apart struct{ there map[string]bool }

func (p *Plan) segments(ctx context.Context) (a apart, err error) {
	files, err := p.Store.List(ctx)
	if err != nil {
		return a, fmt.Errorf("backups: %w", err)
	}
	a.there = map[string]bool{}
	for _, f := range files {
		if backup.IsSegment(f) {
			a.there[f] = true
		}
	}
	return a, nil
}

func (a apart) keep(
	ctx context.Context, s Store, file string, read func() ([]byte, error),
) error {
	if a.there[file] {
		return nil
	}
	data, err := read()
	if err != nil {
		return err
	}
	err = s.Write(ctx, file, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
	if errors.Is(err, backup.ErrExists) { // of the other group, or an earlier try: the same bytes
		return nil
	}
	return err
}

// begins reports whether a file is what a crash left of a backup.
func begins(file string) bool {
	_, part := begunAt(file, partSuffix)
	_, whole := begunAt(file, suffix)
	return part || whole || backup.IsSegment(strings.TrimSuffix(file, ".part"))
}

// prune deletes the backups that need not stay. The newest one always does.
func (p *Plan) prune(ctx context.Context, now time.Time) error {
	list, err := p.List(ctx)
	if err != nil {
		return err
	}
	var failed []error
	for _, b := range list[min(max(p.Keep, 1), len(list)):] {
		if now.Sub(b.Begun) > p.KeepFor {
			failed = append(failed, p.Store.Remove(ctx, b.Name))
		}
	}
	if err = errors.Join(failed...); err == nil && p.Apart {
		err = p.pruneSegments(ctx)
	}
	if err != nil {
		return fmt.Errorf("a backup was made, and old ones could not be deleted: %w", err)
	}
	return nil
}

// pruneSegments deletes the segments that no backup lists. It deletes none if it cannot read what
// one lists.
func (p *Plan) pruneSegments(ctx context.Context) error {
	list, err := p.List(ctx)
	if err != nil {
		return err
	}
	unlisted, err := p.segments(ctx)
	if err != nil {
		return err
	}
	for _, b := range list {
		m, err := p.manifest(ctx, b.Name)
		if err != nil {
			return err
		}
		for _, g := range m.Groups {
			for _, s := range g.Segments {
				delete(unlisted.there, s.File(g.Shard))
			}
		}
	}
	var failed []error
	for file := range unlisted.there {
		failed = append(failed, p.Store.Remove(ctx, file))
	}
	return errors.Join(failed...)
}

// manifest reads what a backup lists.
func (p *Plan) manifest(ctx context.Context, file string) (*backup.Manifest, error) {
	src, _, err := p.Store.Read(ctx, file)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	r, err := backup.NewReader(bufio.NewReaderSize(src, 1<<20), FilesOf(ctx, p.Store))
	if err != nil {
		return nil, err
	}
	return r.Manifest(), nil
}
