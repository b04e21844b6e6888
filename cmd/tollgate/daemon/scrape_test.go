package daemon

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"tollgate/cmd/tollgate/config"
)

// TestScrapesFitTheBootstrap: the scrape configuration of the manual reaches the cluster of the
// manual.
func TestScrapesFitTheBootstrap(t *testing.T) {
	text, err := os.ReadFile("../../../cluster/OPERATIONS.md")
	require.NoError(t, err)
	block := func(begin string) []byte {
		_, found, ok := strings.Cut(string(text), "```yaml\n"+begin)
		require.True(t, ok, begin)
		found, _, _ = strings.Cut(found, "```")
		return []byte(begin + found)
	}
	var node config.Config
	require.NoError(t, yaml.Unmarshal(block("node: node1"), &node))
	require.NotEmpty(t, node.OpsTLS.Certificate)
	var prometheus struct {
		Jobs []struct {
			Scheme string `yaml:"scheme"`
			TLS    struct {
				Authority string `yaml:"ca_file"`
			} `yaml:"tls_config"`
		} `yaml:"scrape_configs"`
	}
	require.NoError(t, yaml.Unmarshal(block("scrape_configs:"), &prometheus))
	require.Len(t, prometheus.Jobs, 1)
	require.Equal(t, "https", prometheus.Jobs[0].Scheme)
	require.NotEmpty(t, prometheus.Jobs[0].TLS.Authority)
}
