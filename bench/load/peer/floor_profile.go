package peer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/pprof"
	"time"
)

// profileEvery is how often a profile is looked for that should be there.
const profileEvery = 50 * time.Millisecond

// await returns when the input ends. A line of it is a duration: for so long a node of the floor
// profiles itself, into a file of its folder.
func (f *Front) await(in io.Reader) error {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		lasts, err := time.ParseDuration(lines.Text())
		if err != nil {
			continue // the end of what said how to serve
		}
		if err = profileInto(filepath.Join(f.Folder, "profile"), lasts); err != nil {
			return fmt.Errorf("floor: %w", err)
		}
	}
	return lines.Err()
}

func profileInto(name string, lasts time.Duration) (err error) {
	file, err := os.Create(name + ".new")
	if err != nil {
		return err
	}
	if err = pprof.StartCPUProfile(file); err == nil {
		time.Sleep(lasts)
		pprof.StopCPUProfile()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), name)
}

// profile has all nodes of the floor profile themselves, in the order of load.Target.Processes.
func (s *system) profile(ctx context.Context, lasts time.Duration) ([][]byte, error) {
	for _, feed := range s.feeds {
		if _, err := fmt.Fprintln(feed, lasts); err != nil {
			return nil, fmt.Errorf("profile: %w", err)
		}
	}
	var profiles [][]byte
	for _, folder := range append([]string{s.folder}, s.followerFolders()...) {
		name := filepath.Join(folder, "profile")
		for {
			text, err := os.ReadFile(name)
			if err == nil {
				profiles = append(profiles, text)
				break
			}
			if !errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("profile: %w", err)
			}
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(profileEvery):
			}
		}
		if err := os.Remove(name); err != nil {
			return nil, fmt.Errorf("profile: %w", err)
		}
	}
	return profiles, nil
}
