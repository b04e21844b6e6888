package helm_test

import (
	"encoding/base64"
	"maps"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"sigs.k8s.io/yaml"

	"tollgate/cmd/tollgate/config"
)

// render makes a release's objects as Helm does, by kind and name, and its notes.
func render(t *testing.T, release string, values map[string]any) (
	objects map[string]map[string]any, notes string,
) {
	t.Helper()
	chart, err := loader.Load("tollgate")
	require.NoError(t, err)
	all, err := chartutil.ToRenderValues(chart, values, chartutil.ReleaseOptions{
		Name: release, Namespace: "billing", Revision: 1, IsInstall: true,
	}, nil)
	require.NoError(t, err)
	files, err := engine.Render(chart, all)
	require.NoError(t, err)
	objects = map[string]map[string]any{}
	for name, text := range files {
		switch path.Ext(name) {
		case ".txt":
			notes = text
		case ".yaml":
			maps.Copy(objects, parse(t, text))
		}
	}
	return objects, notes
}

// parse reads the objects of a file, by kind and name.
func parse(t *testing.T, text string) map[string]map[string]any {
	t.Helper()
	objects := map[string]map[string]any{}
	for document := range strings.SplitSeq(text, "\n---\n") {
		var object map[string]any
		require.NoError(t, yaml.UnmarshalStrict([]byte(document), &object), document)
		name := object["kind"].(string) + " " + object["metadata"].(map[string]any)["name"].(string)
		require.NotContains(t, objects, name)
		objects[name] = object
	}
	return objects
}

// without removes what only a release has: its labels, and the hash of its configuration.
func without(value any) {
	switch value := value.(type) {
	case map[string]any:
		for _, name := range []string{
			"app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "helm.sh/chart", "checksum/config",
		} {
			delete(value, name)
		}
		for _, member := range value {
			without(member)
		}
	case []any:
		for _, item := range value {
			without(item)
		}
	}
}

// settings reads a configuration as a node does.
func settings(t *testing.T, file, node string) config.Config {
	t.Helper()
	c, err := config.Load(file)
	require.NoError(t, err)
	c.Node = node
	c.Complete()
	require.NoError(t, c.Validate())
	return c
}

// configuration reads the configuration of a release as a node does.
func configuration(t *testing.T, secret map[string]any, node string) config.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tollgate.yaml")
	text := secret["stringData"].(map[string]any)["tollgate.yaml"].(string)
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return settings(t, file, node)
}

// TestTheChartIsTheManifests: with its own values the chart makes the objects of deploy/kubernetes
// and their configuration. So the tests of those hold for the chart.
func TestTheChartIsTheManifests(t *testing.T) {
	objects, notes := render(t, "tollgate", nil)
	require.Contains(t, notes, "no one can operate this cluster")
	secret := objects["Secret tollgate-config"]
	require.NotNil(t, secret)
	delete(objects, "Secret tollgate-config")
	require.Equal(t, settings(t, "../kubernetes/tollgate.yaml", "tollgate-1"),
		configuration(t, secret, "tollgate-1"))

	manifests := map[string]map[string]any{}
	for _, name := range []string{"networkpolicy", "poddisruptionbudget", "services", "statefulset"} {
		text, err := os.ReadFile("../kubernetes/" + name + ".yaml")
		require.NoError(t, err)
		manifest := strings.Replace(string(text), "image: tollgate\n", "image: tollgate:latest\n", 1)
		maps.Copy(manifests, parse(t, manifest))
	}
	for _, object := range objects {
		without(object)
	}
	require.Equal(t, manifests, objects)
}

// TestTheChartIsLinted as `helm lint --strict` does it.
func TestTheChartIsLinted(t *testing.T) {
	for _, message := range lint.All("tollgate", nil, "billing", true).Messages {
		require.Less(t, message.Severity, support.WarningSev, "%s: %v", message.Path, message.Err)
	}
}

// TestAReleaseHasItsOwnValues: names follow the release, and members the number of pods.
func TestAReleaseHasItsOwnValues(t *testing.T) {
	key := strings.Repeat("5f", 32)
	objects, notes := render(t, "acme", map[string]any{
		"adminKeyHash": key, "secretsKey": key, "replicas": 5, "join": true, "certificates": "acme-certs",
		"image":   map[string]any{"repository": "registry.example/tollgate", "tag": "1.2.3"},
		"storage": map[string]any{"className": "fast", "size": "1Ti"},
		"settings": map[string]any{
			"publicURL": "https://api.acme.example", "log": map[string]any{"level": "debug"},
		},
	})
	require.NotContains(t, notes, "no one can operate")
	c := configuration(t, objects["Secret acme-config"], "acme-4")
	require.Len(t, c.Members, 5)
	require.Equal(t, "acme-4.acme-nodes:7080", c.Members[4].Raft)
	require.Equal(t, key, c.AdminKeyHash)
	require.Equal(t, key, c.SecretsKey)
	require.Equal(t, "https://api.acme.example", c.PublicURL)
	require.Equal(t, "debug", c.Log.Level)
	require.Equal(t, "json", c.Log.Format, "settings are added to those of the chart")
	require.True(t, c.Join)

	set, err := yaml.Marshal(objects["StatefulSet acme"])
	require.NoError(t, err)
	for _, text := range []string{
		"replicas: 5\n", "serviceName: acme-nodes\n", "image: registry.example/tollgate:1.2.3\n",
		"storageClassName: fast\n", "storage: 1Ti\n", "secretName: acme-certs\n", "secretName: acme-config\n",
	} {
		require.Contains(t, string(set), text)
	}
	require.Equal(t, 1, strings.Count(string(set), "helm.sh/chart"), "labels of pods and claims never change")
}

// TestWrongValuesAreRefused before anything is made.
func TestWrongValuesAreRefused(t *testing.T) {
	chart, err := loader.Load("tollgate")
	require.NoError(t, err)
	for name, values := range map[string]map[string]any{
		"adminKeyHash": {"adminKeyHash": base64.StdEncoding.EncodeToString([]byte("the key itself"))},
		"secretsKey":   {"secretsKey": "short"},
		"replicas":     {"replicas": 4},
		"members":      {"settings": map[string]any{"members": []any{}}},
		"replica":      {"replica": 3},
	} {
		_, err := chartutil.ToRenderValues(chart, values, chartutil.ReleaseOptions{Name: "acme"}, nil)
		require.ErrorContains(t, err, name)
	}
}
