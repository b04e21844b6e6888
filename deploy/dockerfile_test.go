package deploy_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// instruction is one of a Dockerfile: COPY --from=build a b is {"COPY", ["--from=build"], "a b"}.
type instruction struct {
	name  string
	flags []string
	rest  string
}

// list is the rest in its exec form, ["a", "b"].
func (i instruction) list(t *testing.T) (words []string) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(i.rest), &words), "%s %s", i.name, i.rest)
	return words
}

// dockerfile is an image's recipe, stage by stage.
type dockerfile [][]instruction

var continued = regexp.MustCompile(`\\\n\s*`)

func readDockerfile(t *testing.T) (d dockerfile) {
	t.Helper()
	text, err := os.ReadFile("Dockerfile")
	require.NoError(t, err)
	known := regexp.MustCompile(
		`^(FROM|WORKDIR|COPY|ENV|RUN|USER|VOLUME|EXPOSE|STOPSIGNAL|HEALTHCHECK|ENTRYPOINT|CMD)$`)
	for line := range strings.Lines(continued.ReplaceAllString(string(text), "")) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, rest, _ := strings.Cut(line, " ")
		require.Regexp(t, known, name)
		i := instruction{name: name, rest: strings.TrimSpace(rest)}
		for strings.HasPrefix(i.rest, "--") {
			flag, after, _ := strings.Cut(i.rest, " ")
			i.flags, i.rest = append(i.flags, flag), strings.TrimSpace(after)
		}
		if name == "FROM" {
			d = append(d, nil)
		}
		require.NotEmpty(t, d, "FROM comes first")
		d[len(d)-1] = append(d[len(d)-1], i)
	}
	return d
}

// all are the instructions of a name in a stage.
func (d dockerfile) all(stage int, name string) (found []instruction) {
	for _, i := range d[stage] {
		if i.name == name {
			found = append(found, i)
		}
	}
	return found
}

// one is the only instruction of a name in the image's own stage.
func (d dockerfile) one(t *testing.T, name string) instruction {
	t.Helper()
	found := d.all(len(d)-1, name)
	require.Len(t, found, 1, name)
	return found[0]
}

// Images are named by their content: a tag may be moved to other bytes. The builder's tag is a Go
// version that go.mod accepts, and the image has the license texts.
func TestImagesArePinnedByDigest(t *testing.T) {
	pinned := regexp.MustCompile(`^golang:(\d+\.\d+)\.\d+@sha256:[0-9a-f]{64} AS \w+$`)
	module, err := os.ReadFile("../go.mod")
	require.NoError(t, err)
	d := readDockerfile(t)
	for stage := range d {
		from := d.all(stage, "FROM")[0]
		if stage == len(d)-1 {
			require.Equal(t, "scratch", from.rest, "the image contains only copied files")
			continue
		}
		found := pinned.FindStringSubmatch(from.rest)
		require.NotNil(t, found, "FROM %s: want golang:X.Y.Z@sha256:DIGEST; the Dockerfile says how to "+
			"look it up", from.rest)
		require.Contains(t, string(module), "\ngo "+found[1]+".")
	}
	require.Contains(t, d.all(len(d)-1, "COPY"), instruction{
		"COPY",
		[]string{"--from=build"},
		"/src/cmd/tollgate/licenses/notices.txt /licenses/notices.txt",
	})
}
