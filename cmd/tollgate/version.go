package main

import (
	"fmt"
	"runtime/debug"

	"tollgate/engine"
)

type versionCommand struct{}

// Run prints the version.
func (*versionCommand) Run() error {
	fmt.Printf("tollgate %s, entry format %d, cluster version %d\n", version(), engine.FormatVersion,
		engine.Version)
	return nil
}

// version is what the build knows of itself: the commit, marked when the tree was changed.
func version() string {
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
