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
