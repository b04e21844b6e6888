package deploy_test

import (
	"context"
	"debug/elf"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"tollgate/cmd/tollgate/config"
)

// compose reads the Compose file as Compose does, schema included.
func compose(t *testing.T) *types.Project {
	t.Helper()
	folder, err := filepath.Abs("compose")
	require.NoError(t, err)
	text, err := os.ReadFile("compose/compose.yaml")
	require.NoError(t, err)
	project, err := loader.LoadWithContext(context.Background(), types.ConfigDetails{
		WorkingDir:  folder,
		ConfigFiles: []types.ConfigFile{{Filename: "compose.yaml", Content: text}},
	}, func(o *loader.Options) { o.Profiles = []string{"*"} })
	require.NoError(t, err)
	return project
}

// settingsOf reads a configuration as one of its nodes does.
func settingsOf(t *testing.T, file, node string) config.Config {
	t.Helper()
	settings, err := config.Load(file)
	require.NoError(t, err)
	settings.Node = node
	settings.Complete()
	require.NoError(t, settings.Validate())
	return settings
}

// ownFiles is the number of open files that a node needs in addition to those of its clients; see
// sample.yaml.
const ownFiles = 2048

func TestComposeNodesFitTheirConfiguration(t *testing.T) {
	project, image := compose(t), readDockerfile(t)
	require.Len(t, project.Services, 4)
	certs := project.Services["certs"]
	require.Equal(t, types.RestartPolicyNo, certs.Restart, "it ends, and then the nodes start")
	require.Empty(t, certs.Profiles, "`docker compose up` runs it")
	require.Empty(t, certs.DependsOn)
	folders, published := map[string]string{}, map[string]string{}
	for _, member := range settingsOf(t, "compose/tollgate.yaml", "node1").Members {
		service := project.Services[member.ID]
		settings := settingsOf(t, "compose/tollgate.yaml", member.ID)
		require.Equal(t, []string{"serve", "--config", "/etc/tollgate/tollgate.yaml", "--node", member.ID},
			[]string(service.Command))
		require.Equal(t, member.ID+":7080", member.Raft)

		require.Equal(t, types.ServiceConditionCompletedSuccessfully, service.DependsOn["certs"].Condition)
		require.NotNil(t, service.StopGracePeriod, member.ID)
		require.Greater(t, time.Duration(*service.StopGracePeriod), settings.StopTimeout+5*time.Second)
		require.GreaterOrEqual(t, service.Ulimits["nofile"].Single, settings.Connections.Total+ownFiles)
		require.True(t, service.ReadOnly)
		require.Equal(t, []string{"ALL"}, service.CapDrop)

		ports := portsOf(t, settings)
		require.Len(t, service.Ports, 2)
		for i, p := range service.Ports {
			require.Equal(t, ports[i], p.Target, "%s publishes a port without a listener", member.ID)
			require.Equal(t, "127.0.0.1", p.HostIP)
			require.Empty(t, published[p.Published], "%s is published twice", p.Published)
			published[p.Published] = member.ID
		}
		for _, port := range ports {
			require.Contains(t, image.one(t, "EXPOSE").rest, portText(port))
		}
		targets := map[string]bool{}
		for _, v := range service.Volumes {
			targets[v.Target] = true
			require.Equal(t, v.Target != "/data", v.ReadOnly, v.Target)
			if v.Type == types.VolumeTypeVolume {
				require.Contains(t, project.Volumes, v.Source)
			}
			if v.Target == "/certs" {
				require.Equal(t, certs.Volumes[0].Source, v.Source)
			} else if v.Type == types.VolumeTypeVolume {
				require.Empty(t, folders[v.Source], "two nodes in one folder")
				folders[v.Source] = member.ID
				require.Equal(t, settings.Data, v.Target)
			}
		}
		require.Equal(t, map[string]bool{
			"/data": true, "/certs": true, "/etc/tollgate/tollgate.yaml": true,
		}, targets)
		for _, file := range []string{
			settings.TLS.Authority, settings.TLS.Certificate, settings.TLS.Key,
		} {
			require.Equal(t, "/certs", filepath.Dir(file))
		}
	}
	require.Len(t, folders, 3)
	_, err := os.Stat(filepath.Join(root, project.Services["node1"].Build.Dockerfile))
	require.NoError(t, err)
}

// What the build reads of the project must not be kept from it.
func TestImageGetsWhatItIsBuiltFrom(t *testing.T) {
	image := readDockerfile(t)
	require.Equal(t, []instruction{{"COPY", nil, ". ."}}, image.all(0, "COPY"))
	text, err := os.ReadFile("Dockerfile.dockerignore")
	require.NoError(t, err)
	var ignored []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			require.NotContains(t, strings.TrimPrefix(line, "**/"), "*", "this test knows no such pattern")
			ignored = append(ignored, line)
		}
	}
	require.NotContains(t, ignored, ".git", "the version comes from there")
	list := exec.Command("go", "list", "-deps", "-f",
		`{{if .Module}}{{if .Module.Main}}{{$d := .Dir}}{{range .GoFiles}}{{$d}}/{{.}}
{{end}}{{range .EmbedFiles}}{{$d}}/{{.}}
{{end}}{{end}}{{end}}`, "./cmd/tollgate")
	list.Dir = root
	needed, err := list.Output()
	require.NoError(t, err)
	base, err := filepath.Abs(root)
	require.NoError(t, err)
	count := 0
	for file := range strings.FieldsSeq(string(needed)) {
		count++
		relative, err := filepath.Rel(base, file)
		require.NoError(t, err)
		for _, pattern := range ignored {
			anywhere, found := strings.CutPrefix(pattern, "**/")
			hidden := strings.HasPrefix(relative, pattern+"/")
			if found {
				hidden = strings.Contains("/"+relative, "/"+anywhere+"/")
			}
			require.False(t, hidden, "%s is kept from the build by %s", relative, pattern)
		}
	}
	require.Greater(t, count, 100)
}

// The image is the static program of the Dockerfile's own commands, for a user who is not root.
func TestImageIsStaticAndNotRoot(t *testing.T) {
	tr := running(t)
	file, err := elf.Open(tr.binary)
	require.NoError(t, err)
	defer file.Close()
	for _, part := range file.Progs {
		require.NotEqual(t, elf.PT_INTERP, part.Type, "it wants a dynamic loader")
	}
	libraries, err := file.ImportedLibraries()
	require.NoError(t, err)
	require.Empty(t, libraries)

	require.Equal(t, "65532:65532", tr.image.one(t, "USER").rest)
	require.Equal(t, "scratch", tr.image[len(tr.image)-1][0].rest)
	require.Equal(t, []string{"/tollgate"}, tr.image.one(t, "ENTRYPOINT").list(t))
	require.Equal(t, []string{"serve", "--config", "/etc/tollgate/tollgate.yaml"},
		tr.image.one(t, "CMD").list(t))
	owner := func(name string) uint32 {
		info, err := os.Stat(filepath.Join(tr.rooms["node1"].root, name))
		require.NoError(t, err)
		return info.Sys().(*syscall.Stat_t).Uid
	}
	if want := uint32(os.Geteuid()); want != 0 {
		require.Equal(t, want, owner("data/LOCK")) // mapped to the image's user in its namespace
		return
	}
	require.EqualValues(t, nobody, owner("data/LOCK"), "the node ran as another user")
	require.Zero(t, owner("tollgate"))
}

// The cluster of the Compose file begins, answers its operator, and each node stops within its
// grace and comes back.
func TestComposeClusterServesAndStops(t *testing.T) {
	tr := running(t)
	node := tr.rooms["node1"]
	out, err := node.command("cluster", "status", "--json", "--admin-key", adminKey,
		"--ops", tr.address["node1"]+":9080").Output()
	require.NoError(t, err, "%s", out)
	var status struct {
		Data struct {
			Members []struct {
				ID               string
				Voter, Reachable bool
			}
		}
	}
	require.NoError(t, json.Unmarshal(out, &status))
	require.Len(t, status.Data.Members, 3)
	for _, m := range status.Data.Members {
		require.True(t, m.Voter, m.ID)
	}

	require.NoError(t, node.stop(t, time.Duration(*node.service.StopGracePeriod)), "%s", &node.printed)
	require.Contains(t, node.printed.String(), `"msg":"node stopped"`)
	node.start(t)
	node.waitReady(t)
	out, err = node.command("ready", "--wait", "1ms", "--ops", tr.address["node1"]+":1").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "is not ready: ")
}

// answers sees that the operations listener has the paths.
func answers(t *testing.T, paths ...string) {
	t.Helper()
	tr := running(t)
	for _, path := range paths {
		answer, err := http.Get("http://" + tr.address["node1"] + ":9080" + path)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, http.StatusOK, answer.StatusCode, path)
	}
}

// metrics are the names that the nodes show, those of histograms and summaries included, each with
// its labels.
func (tr *trial) metrics(t *testing.T) map[string]map[string]bool {
	t.Helper()
	all := map[string]map[string]bool{}
	for _, address := range tr.address {
		_, err := http.Get("http://" + address + ":8080/api/v1/client/plans") // one request more
		require.NoError(t, err)
		answer, err := http.Get("http://" + address + ":9080/metrics")
		require.NoError(t, err)
		reader := expfmt.NewTextParser(model.UTF8Validation)
		families, err := reader.TextToMetricFamilies(answer.Body)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		for name, family := range families {
			own := map[string]bool{}
			for _, m := range family.GetMetric() {
				for _, label := range m.GetLabel() {
					own[label.GetName()] = true
				}
			}
			all[name] = own
			if len(family.GetMetric()) > 0 && family.GetMetric()[0].GetHistogram() != nil {
				all[name+"_bucket"], all[name+"_sum"], all[name+"_count"] = own, own, own
			}
		}
	}
	return all
}
