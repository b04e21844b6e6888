//go:build stepped_clock

package daemon

import (
	"os"
	"path/filepath"
	"time"
)

// A build for tests whose nodes have clocks that can be stepped while they run, which the machine's
// own cannot be without all its nodes: the file clock-step in a node's folder says by how much.
func init() {
	wallClock = func(dir string) func() time.Time {
		return func() time.Time {
			text, err := os.ReadFile(filepath.Join(dir, "clock-step"))
			if err != nil {
				return time.Now()
			}
			step, err := time.ParseDuration(string(text))
			if err != nil {
				panic(err)
			}
			return time.Now().Add(step)
		}
	}
}
