package daemon

import "runtime/debug"

// Version is what the build knows of itself: the commit, marked when the tree was changed.
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
	return revision + changed + " " + info.GoVersion
}
