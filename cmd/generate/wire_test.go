package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// generate returns what is generated beside a source file of the package engine/p.
func generate(t *testing.T, source string) (string, error) {
	t.Helper()
	folder := t.TempDir()
	for _, part := range folders {
		require.NoError(t, os.MkdirAll(filepath.Join(folder, part, "p"), 0o755))
	}
	name := filepath.Join(folder, "engine", "p", "p.go")
	require.NoError(t, os.WriteFile(name, []byte("package p\n\n"+source), 0o644))
	files, err := Generate(folder)
	return string(files["engine/p/schema"+suffix]), err
}

// TestSinceAsksAllFields: a struct has Since where a field of any class came later, also one that
// is embedded, nested or in a list, however deep.
func TestSinceAsksAllFields(t *testing.T) {
	text, err := generate(t, `
type Command struct {
	A uint32 `+"`wire:\"1\"`"+`
	Shared
	Details
	Flag bool `+"`wire:\"2,since=2\"`"+`
	Number uint16 `+"`wire:\"3,since=3\"`"+`
	Amount int64 `+"`wire:\"4,since=2\"`"+`
	Text string `+"`wire:\"5,since=2\"`"+`
	Data []byte `+"`wire:\"6,since=2\"`"+`
	Names []string `+"`wire:\"7,since=2\"`"+`
	Units decimal.Decimal `+"`wire:\"8,since=2\"`"+`
	Line Line `+"`wire:\"9\"`"+`
	Lines []Line `+"`wire:\"10,since=2\"`"+`
	Old []Old `+"`wire:\"11\"`"+`
}

type Line struct {
	Parts []Part `+"`wire:\"1\"`"+`
}

type Part struct {
	B uint64 `+"`wire:\"1,since=4\"`"+`
	Within []Part `+"`wire:\"2\"`"+`
}

type Old struct {
	C uint64 `+"`wire:\"1\"`"+`
}

//schema:part
type Shared struct {
	D uint32 `+"`wire:\"12,since=5\"`"+`
}

//schema:details
type Details struct {
	E string `+"`wire:\"32,since=6\"`"+`
}
`)
	require.NoError(t, err)
	const doc = "// Since returns the first cluster version that knows all the fields which are set.\n"
	require.Contains(t, text, doc+`func (v *Command) Since() (version uint32) {
	if v.Flag {
		version = max(version, 2)
	}
	if v.Number != 0 {
		version = max(version, 3)
	}
	if v.Amount != 0 {
		version = max(version, 2)
	}
	if v.Text != "" {
		version = max(version, 2)
	}
	if len(v.Data) > 0 {
		version = max(version, 2)
	}
	if len(v.Names) > 0 {
		version = max(version, 2)
	}
	if !v.Units.IsZero() {
		version = max(version, 2)
	}
	version = max(version, v.Line.Since())
	if len(v.Lines) > 0 {
		version = max(version, 2)
	}
	for i := range v.Lines {
		version = max(version, v.Lines[i].Since())
	}
	if v.D != 0 {
		version = max(version, 5)
	}
	if v.E != "" {
		version = max(version, 6)
	}
	return version
}
`)
	require.Contains(t, text, doc+`func (v *Line) Since() (version uint32) {
	for i := range v.Parts {
		version = max(version, v.Parts[i].Since())
	}
	return version
}
`)
	require.Contains(t, text, doc+`func (v *Part) Since() (version uint32) {
	if v.B != 0 {
		version = max(version, 4)
	}
	for i := range v.Within {
		version = max(version, v.Within[i].Since())
	}
	return version
}
`)
	require.NotContains(t, text, "func (v *Old) Since")

	for _, field := range []string{
		"ID [16]byte `wire:\"1,since=2\"`", "Line Line `wire:\",inline,since=2\"`",
	} {
		_, err = generate(t, "type Command struct {\n"+field+"\n}\n\ntype Line struct {\nB uint8 `wire:\"1\"`\n}\n")
		require.ErrorContains(t, err, "since", field)
	}
}
