// Package archive is the folder, or bucket, of a node's scheduled backups: when the next one is
// due, making it, and which old ones go once the new one is proven. Names say when each was begun,
// and a file next to it that it was read back to its last byte, so that the archive needs no memory
// of its own: after a restart, or on another node, the files are asked.
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
	"tollgate/cmd/tollgate/bucket"
)

// Names of backups: tollgate-20261121T031500Z.tgb.
const (
	prefix    = "tollgate-"
	suffix    = ".tgb"
	stampForm = "20060102T150405Z"
	// provenSuffix is added to the name of a backup for the file that marks it as read back.
	provenSuffix = ".proven"
	// partSuffix is added to the name of a file that is being written.
	partSuffix = ".part"
	// damagedSuffix is added to the name of a backup that is not what was written.
	damagedSuffix = ".damaged"
)

// Plan says when backups are made and how many stay. Not safe for concurrent use.
type Plan struct {
	// Store is where they are.
	Store Store
	// Every is the time between two backups. Daily, when not negative, is a time of day in UTC, as
	// what has passed since midnight, and counts instead.
	Every, Daily time.Duration
	// Apart keeps the segments of the journal as files of their own, which later backups do not write
	// again: they never change.
	Apart bool
	// Alone reports whether no other node makes backups there: then segments that no backup lists are
	// deleted.
	Alone bool
	// Keep is how many of the newest proven ones always stay; of those that are older, those go that
	// are older than KeepFor.
	Keep    int
	KeepFor time.Duration

	lists manifests
	// clusters are the identities of clusters, by the names of their backups.
	clusters map[string]string
	// suspect is the backup that was found damaged last: found damaged again, it is set aside.
	suspect string
	// doubted are backups whose segments are not taken: they could not be read once.
	doubted []string
}

// Backup is one file of the archive; List has its name within the store, Make its whole name.
type Backup struct {
	Name  string
	Begun time.Time
	// proven reports whether it was read back to its last byte. Only then does it count.
	proven bool
}

// List returns the proven backups of the store, the newest first. Other files are left out.
func (p *Plan) List(ctx context.Context) ([]Backup, error) {
	files, err := p.Store.List(ctx, prefix)
	if err != nil {
		return nil, fmt.Errorf("backups: %w", err)
	}
	return slices.DeleteFunc(backupsAmong(files), func(b Backup) bool { return !b.proven }), nil
}

// backupsAmong are the backups among files, proven or not, the newest first.
func backupsAmong(files []bucket.File) (list []Backup) {
	proven := map[string]bool{}
	for _, f := range files {
		if name, marks := strings.CutSuffix(f.Name, provenSuffix); marks {
			proven[name] = true
		}
	}
	for _, f := range files {
		if begun, ok := begunAt(f.Name); ok {
			list = append(list, Backup{f.Name, begun, proven[f.Name]})
		}
	}
	slices.SortFunc(list, func(a, b Backup) int { return b.Begun.Compare(a.Begun) })
	return list
}

// Of leaves out of a list what is newer than the newest backup of a cluster: no log that it keeps
// goes on behind those. Without one of its own it is empty, as after a restore.
func (p *Plan) Of(ctx context.Context, list []Backup, cluster string) ([]Backup, error) {
	for i, b := range list {
		of, known := p.clusters[b.Name]
		if !known {
			m, err := p.manifest(ctx, b.Name)
			if damaged(err) || errors.Is(err, backup.ErrVersion) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p.Store.Name(b.Name), err)
			}
			if p.clusters == nil {
				p.clusters = map[string]string{}
			}
			of = m.Cluster
			p.clusters[b.Name] = of
		}
		if of == cluster {
			return list[i:], nil
		}
	}
	return nil, nil
}

func begunAt(name string) (time.Time, bool) {
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

// Made is a backup that was made.
type Made struct {
	Backup
	// Bytes is what it holds, segments included.
	Bytes int64
	// Warning is what an operator should look at although the backup was made.
	Warning error
}

// Make makes a backup now, reads back from the store to its last byte what was written, and only
// then deletes those that need not stay. After an error every old one is still there. A backup that
// could not be read back does not count, and is read once more before another one is made.
func (p *Plan) Make(ctx context.Context, now time.Time, write Write) (made Made, err error) {
	if err := p.Store.Begin(ctx, mayBegin); err != nil {
		return made, fmt.Errorf("backups: %w", err)
	}
	files, err := p.Store.List(ctx, "")
	if err != nil {
		return made, fmt.Errorf("backups: %w", err)
	}
	proven, err := p.provenSegments(ctx, files)
	if err != nil {
		return made, fmt.Errorf("backups: %w", err)
	}
	var aside error
	if last, ok := p.unproven(files, now); ok {
		if made, err = p.prove(ctx, last, proven); err == nil {
			return p.pruned(ctx, now, made)
		}
		if !p.damagedAgain(last.Name, err) {
			return Made{}, fmt.Errorf("%s could not be read back; the old ones stay: %w",
				p.Store.Name(last.Name), err)
		}
		what, failed := p.Store.SetAside(ctx, last.Name)
		aside = errors.Join(fmt.Errorf("%s is not what was written, read twice; it %s: %w",
			p.Store.Name(last.Name), what, err), failed)
	}
	begun := now.UTC().Truncate(time.Second)
	next := Backup{Name: prefix + begun.Format(stampForm) + suffix, Begun: begun}
	var keep Keep
	if p.Apart {
		keep = func(file string, read func() ([]byte, error)) error {
			if proven[file] {
				return nil
			}
			return p.keep(ctx, file, read)
		}
	}
	err = p.Store.Write(ctx, next.Name, func(w io.Writer) error { return write(ctx, w, keep) })
	if err != nil {
		return Made{}, fmt.Errorf("no backup was made; the old ones stay: %w", errors.Join(err, aside))
	}
	if made, err = p.prove(ctx, next, proven); err != nil {
		p.damagedAgain(next.Name, err)
		return Made{}, fmt.Errorf("%s was written and could not be read back, so it does not count; "+
			"it is read once more before another one is made; the old ones stay: %w",
			p.Store.Name(next.Name), errors.Join(err, aside))
	}
	made.Warning = aside
	return p.pruned(ctx, now, made)
}

// unproven is the newest backup, where it is not proven and no other one would be due yet if it
// were.
func (p *Plan) unproven(files []bucket.File, now time.Time) (last Backup, ok bool) {
	list := backupsAmong(files)
	past := slices.IndexFunc(list, func(b Backup) bool { return !b.Begun.After(now) })
	if past < 0 || list[past].proven || !p.Due(list, now).After(now) {
		return last, false
	}
	return list[past], true
}

// prove reads a backup back, and then marks it as one that counts.
func (p *Plan) prove(ctx context.Context, b Backup, proven map[string]bool) (Made, error) {
	m, err := p.check(ctx, b.Name, proven)
	if err != nil {
		return Made{}, err
	}
	err = p.Store.Replace(ctx, b.Name+provenSuffix, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "%s was read back to its last byte.\n", b.Name)
		return err
	})
	if err != nil { // whatever it is, it says nothing about the backup
		return Made{}, fmt.Errorf("it cannot be marked as proven: %v", err) //nolint:errorlint
	}
	return Made{Backup: Backup{p.Store.Name(b.Name), b.Begun, true}, Bytes: m.Bytes()}, nil
}

// damagedAgain reports whether an error is that of a damaged backup, and this Plan found the backup
// damaged before.
func (p *Plan) damagedAgain(name string, err error) bool {
	if !damaged(err) {
		return false
	}
	again := p.suspect == name
	p.suspect = name
	return again
}

// damaged reports whether an error is the backup's, and not the way's to it.
func damaged(err error) bool {
	return errors.Is(err, backup.ErrDamaged) || errors.Is(err, fs.ErrNotExist)
}

// check reads a backup to its last byte, and its segments but for those that are proven.
func (p *Plan) check(
	ctx context.Context, file string, proven map[string]bool,
) (*backup.Manifest, error) {
	src, _, err := p.Store.Read(ctx, file)
	if err != nil {
		return nil, err
	}
	open := FilesOf(ctx, p.Store)
	m, err := backup.Check(bufio.NewReaderSize(src, 1<<20), func(file string) (io.ReadCloser, error) {
		if proven[file] {
			return nil, nil
		}
		return open(file)
	}, nil)
	return m, errors.Join(err, src.Close())
}

// keep writes a segment, instead of one that no proven backup lists: it was never read back.
func (p *Plan) keep(ctx context.Context, file string, read func() ([]byte, error)) error {
	data, err := read()
	if err != nil {
		return err
	}
	return p.Store.Replace(ctx, file, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// mayBegin reports whether a file is one that Make writes: KeepLog may be writing its own then.
func mayBegin(file string) bool {
	_, ours := begunAt(strings.TrimSuffix(file, provenSuffix))
	return ours || backup.IsSegment(file)
}

// pruned deletes the backups, and segments, that need not stay now that one was made.
func (p *Plan) pruned(ctx context.Context, now time.Time, made Made) (Made, error) {
	files, err := p.Store.List(ctx, "")
	if err == nil {
		files, err = p.prune(ctx, now, files)
	}
	if err == nil {
		err = p.pruneLogs(ctx, files)
	}
	if err == nil && p.Alone {
		var warning error
		warning, err = p.pruneSegments(ctx, files)
		made.Warning = errors.Join(made.Warning, warning)
	}
	if err != nil {
		err = fmt.Errorf("a backup was made, and old ones could not be deleted: %w", err)
	}
	return made, err
}

// prune deletes the backups that need not stay, and returns the files that do. As long as fewer
// than Keep are proven it deletes none.
func (p *Plan) prune(
	ctx context.Context, now time.Time, files []bucket.File,
) (stay []bucket.File, err error) {
	list := backupsAmong(files)
	gone := map[string]bool{}
	proven := 0
	for _, b := range list {
		if proven >= max(p.Keep, 1) && now.Sub(b.Begun) > p.KeepFor {
			gone[b.Name] = true
		}
		if b.proven {
			proven++
		}
	}
	there := map[string]bool{}
	for _, f := range files {
		there[f.Name] = true
	}
	// Marks go first: what a crash leaves of a deletion does not count.
	for _, f := range files {
		name, marks := strings.CutSuffix(f.Name, provenSuffix)
		if _, ours := begunAt(name); marks && ours && (gone[name] || !there[name]) {
			err = errors.Join(err, p.Store.Remove(ctx, f.Name))
		}
	}
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if gone[f.Name] {
			err = errors.Join(err, p.Store.Remove(ctx, f.Name))
		} else {
			stay = append(stay, f)
		}
	}
	return stay, err
}
