package mail

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// keptMails is how many mails a folder keeps, the newest.
const keptMails = 200

// Folder keeps mails in files instead of sending them: for one's own machine. Several nodes may
// share one. Nothing in it is a secret's place: links in mails are readable there.
type Folder struct{ dir string }

// OpenFolder makes a folder ready. Files of other kinds in it are left alone.
func OpenFolder(dir string) (*Folder, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("mail: the folder of mails: %w", err)
	}
	return &Folder{dir}, nil
}

const keptSuffix = ".mail.json"

// Send keeps a mail. The same mail again takes the place of the one before.
func (f *Folder) Send(_ context.Context, m *Message) Result {
	if m.check() != nil {
		return Result{Outcome: Refused, Reason: "the address cannot be written to"}
	}
	if err := f.write(m); err != nil {
		return Result{Outcome: Retry, Reason: "the folder of mails cannot be written to"}
	}
	return Result{Outcome: Delivered}
}

func (f *Folder) write(m *Message) error {
	kept := *m
	kept.Subject, kept.At = oneLine(m.Subject), m.At.UTC()
	data, err := json.MarshalIndent(kept, "", "  ")
	if err != nil {
		return err
	}
	// Names sort by time.
	name := fmt.Sprintf("%015d-%s%s", max(0, m.At.UnixMilli()), m.ID, keptSuffix)
	draft, err := os.CreateTemp(f.dir, "draft-*")
	if err != nil {
		return err
	}
	_, err = draft.Write(data)
	if err = errors.Join(err, draft.Close()); err == nil {
		err = os.Rename(draft.Name(), filepath.Join(f.dir, name))
	}
	if err != nil {
		return errors.Join(err, os.Remove(draft.Name()))
	}
	return f.trim()
}

// names are the files of mails, newest first.
func (f *Folder) names() ([]string, error) {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return nil, fmt.Errorf("mail: the folder of mails: %w", err)
	}
	var names []string
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), keptSuffix) {
			names = append(names, entry.Name())
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(b, a) })
	return names, nil
}

func (f *Folder) trim() error {
	names, err := f.names()
	if err != nil || len(names) <= keptMails {
		return err
	}
	for _, name := range names[keptMails:] {
		// Another node may have been faster.
		if err := os.Remove(filepath.Join(f.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Newest lists the kept mails, newest first, up to a limit.
func (f *Folder) Newest(maximum int) ([]Message, error) {
	names, err := f.names()
	if err != nil {
		return nil, err
	}
	var kept []Message
	for _, name := range names[:min(maximum, len(names))] {
		data, err := os.ReadFile(filepath.Join(f.dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was trimmed meanwhile
		}
		var k Message
		if err == nil {
			err = json.Unmarshal(data, &k)
		}
		if err != nil {
			return nil, fmt.Errorf("mail: %s: %w", name, err)
		}
		kept = append(kept, k)
	}
	return kept, nil
}
