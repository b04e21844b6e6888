// Package archive is the folder of a node's scheduled backups: when the next one is due, making it,
// and which old ones go once the new one is proven. Its names say when each was begun, so it needs
// no memory of its own: after a restart, or on another node, the files are asked.
package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
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
	// Folder is where they are; it is made when absent.
	Folder string
	// Every is the time between two backups. Daily, when not negative, is a time of day in UTC, as
	// what has passed since midnight, and counts instead.
	Every, Daily time.Duration
	// Keep is how many of the newest always stay; of the others, those go that are older than KeepFor.
	Keep    int
	KeepFor time.Duration
}

// Backup is one file of the archive.
type Backup struct {
	Name  string
	Begun time.Time
}

// List returns the backups of the folder, the newest first. Other files are none.
func (p *Plan) List() ([]Backup, error) {
	found, err := os.ReadDir(p.Folder)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("backups: %w", err)
	}
	var list []Backup
	for _, f := range found {
		if begun, ok := begunAt(f.Name(), suffix); ok {
			list = append(list, Backup{filepath.Join(p.Folder, f.Name()), begun})
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

// Make makes a backup now, reads it back from the disk to its last byte, and only then deletes
// those that need not stay. After an error every old one is still there.
func (p *Plan) Make(
	ctx context.Context, now time.Time, write func(context.Context, io.Writer) error,
) (made Backup, bytes int64, err error) {
	if err := os.MkdirAll(p.Folder, 0o700); err != nil {
		return made, 0, fmt.Errorf("backups: %w", err)
	}
	if err := p.removeParts(); err != nil {
		return made, 0, err
	}
	begun := now.UTC().Truncate(time.Second)
	name := filepath.Join(p.Folder, prefix+begun.Format(stampForm)+suffix)
	if err := backup.WriteFile(name, func(w io.Writer) error { return write(ctx, w) }); err != nil {
		return made, 0, fmt.Errorf("no backup was made; the old ones stay: %w", err)
	}
	m, err := backup.CheckFile(name, nil)
	if err != nil {
		err = errors.Join(err, os.Rename(name, name+damagedSuffix))
		return made, 0, fmt.Errorf("the backup is not what was written, and has the name %s now; "+
			"the old ones stay; look at the disk: %w", name+damagedSuffix, err)
	}
	return Backup{name, begun}, m.Bytes(), p.prune(now)
}

// removeParts deletes what a crash left of backups.
func (p *Plan) removeParts() error {
	found, err := os.ReadDir(p.Folder)
	if err != nil {
		return fmt.Errorf("backups: %w", err)
	}
	for _, f := range found {
		if _, part := begunAt(f.Name(), partSuffix); part {
			if err := os.Remove(filepath.Join(p.Folder, f.Name())); err != nil {
				return fmt.Errorf("backups: %w", err)
			}
		}
	}
	return nil
}

// prune deletes the backups that need not stay. The newest one always does.
func (p *Plan) prune(now time.Time) error {
	list, err := p.List()
	if err != nil {
		return err
	}
	var failed []error
	for _, b := range list[min(max(p.Keep, 1), len(list)):] {
		if now.Sub(b.Begun) > p.KeepFor {
			failed = append(failed, os.Remove(b.Name))
		}
	}
	if err := errors.Join(failed...); err != nil {
		return fmt.Errorf("a backup was made, and old ones could not be deleted: %w", err)
	}
	return nil
}
