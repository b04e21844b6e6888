package daemon

import (
	"runtime/debug"
	"strings"
)

// release is the version of a release, by the linker; empty elsewhere.
var release string

// Version is what the build knows of itself: the release, the commit, marked when the tree was
// changed, and the Go.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	revision, changed := "development", ""
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			revision = setting.Value[:min(12, len(setting.Value))]
		case "vcs.modified":
			if setting.Value == "true" {
				changed = " (changed)"
			}
		}
	}
	return strings.TrimSpace(release + " " + revision + changed + " " + info.GoVersion)
}
