package deploy_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"

	"tollgate/cmd/tollgate/config"
)

// portsOf are the ports of a configuration: clients, operations, other nodes.
func portsOf(t *testing.T, c config.Config) (ports []uint32) {
	t.Helper()
	for _, address := range []string{c.HTTP, c.Ops, c.Raft} {
		host, text, err := net.SplitHostPort(address)
		require.NoError(t, err)
		require.Equal(t, "0.0.0.0", host, "a container's address is not known beforehand")
		port, err := strconv.ParseUint(text, 10, 16)
		require.NoError(t, err)
		ports = append(ports, uint32(port))
	}
	return ports
}

func portText(port uint32) string { return strconv.Itoa(int(port)) }

// kustomization is the part of Kustomize's format that ours uses; other fields are refused.
type kustomization struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Resources  []string `json:"resources"`
	Labels     []struct {
		Pairs map[string]string `json:"pairs"`
	} `json:"labels"`
	Images []struct {
		Name   string `json:"name"`
		NewTag string `json:"newTag"`
	} `json:"images"`
	SecretGenerator []struct {
		Name    string   `json:"name"`
		Files   []string `json:"files"`
		Options struct {
			DisableNameSuffixHash bool `json:"disableNameSuffixHash"`
		} `json:"options"`
	} `json:"secretGenerator"`
}

// manifests are the objects of the folder, decoded as strictly as an API server does that is asked
// to: a field that does not exist is an error.
type manifests struct {
	kustomization kustomization
	set           apps.StatefulSet
	nodes, client core.Service
	budget        policy.PodDisruptionBudget
	network       networking.NetworkPolicy
}

func readManifests(t *testing.T) (m manifests) {
	t.Helper()
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join("kubernetes", name))
		require.NoError(t, err)
		return string(text)
	}
	require.NoError(t, yaml.UnmarshalStrict([]byte(read("kustomization.yaml")), &m.kustomization))
	into := map[string]any{
		"apps/v1 StatefulSet tollgate": &m.set, "v1 Service tollgate-nodes": &m.nodes,
		"v1 Service tollgate": &m.client, "policy/v1 PodDisruptionBudget tollgate": &m.budget,
		"networking.k8s.io/v1 NetworkPolicy tollgate": &m.network,
	}
	for _, name := range m.kustomization.Resources {
		for _, document := range strings.Split(read(name), "\n---\n") {
			var head struct {
				APIVersion string `json:"apiVersion"`
				Kind       string `json:"kind"`
				Metadata   struct {
					Name string `json:"name"`
				} `json:"metadata"`
			}
			require.NoError(t, yaml.Unmarshal([]byte(document), &head))
			key := head.APIVersion + " " + head.Kind + " " + head.Metadata.Name
			require.NotNil(t, into[key], "%s: %s is unknown, or there twice", name, key)
			require.NoError(t, yaml.UnmarshalStrict([]byte(document), into[key]), name)
			delete(into, key)
		}
	}
	require.Empty(t, into)
	return m
}

func (m manifests) container(t *testing.T) core.Container {
	t.Helper()
	require.Len(t, m.set.Spec.Template.Spec.Containers, 1)
	return m.set.Spec.Template.Spec.Containers[0]
}

// The members that the configuration names are the pods' names in the headless service.
func TestKubernetesPodsAreTheMembers(t *testing.T) {
	m := readManifests(t)
	require.Equal(t, m.nodes.Name, m.set.Spec.ServiceName)
	require.Equal(t, core.ClusterIPNone, m.nodes.Spec.ClusterIP)
	require.True(t, m.nodes.Spec.PublishNotReadyAddresses, "nodes must meet to become ready")
	require.Equal(t, apps.ParallelPodManagement, m.set.Spec.PodManagementPolicy,
		"the first pod is not ready before the second is there")
	settings := settingsOf(t, "kubernetes/tollgate.yaml", "tollgate-0")
	require.Len(t, settings.Members, int(*m.set.Spec.Replicas))
	ports := portsOf(t, settings)
	for i, member := range settings.Members {
		pod := fmt.Sprintf("%s-%d", m.set.Name, i)
		host := pod + "." + m.nodes.Name
		require.Equal(t, config.Member{
			ID: pod, HTTP: host + ":" + portText(ports[0]), Ops: host + ":" + portText(ports[1]),
			Raft: host + ":" + portText(ports[2]),
		}, member)
		settingsOf(t, "kubernetes/tollgate.yaml", pod)
	}
	c := m.container(t)
	require.Equal(t, "$(POD_NAME)", c.Args[slices.Index(c.Args, "--node")+1])
	require.Equal(t, "metadata.name", c.Env[0].ValueFrom.FieldRef.FieldPath)
	require.Equal(t, "POD_NAME", c.Env[0].Name)

	labels := m.set.Spec.Template.Labels
	for who, selector := range map[string]map[string]string{
		"set": m.set.Spec.Selector.MatchLabels, "nodes": m.nodes.Spec.Selector,
		"client": m.client.Spec.Selector, "budget": m.budget.Spec.Selector.MatchLabels,
		"network": m.network.Spec.PodSelector.MatchLabels,
	} {
		require.Equal(t, labels, selector, who)
	}
	require.Equal(t, 1, m.budget.Spec.MaxUnavailable.IntValue())
	apart := m.set.Spec.Template.Spec.Affinity.PodAntiAffinity
	require.Len(t, apart.RequiredDuringSchedulingIgnoredDuringExecution, 1)
	require.Equal(t, labels,
		apart.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector.MatchLabels)
	require.Equal(t, core.LabelHostname,
		apart.RequiredDuringSchedulingIgnoredDuringExecution[0].TopologyKey)
}

func TestKubernetesPortsAndProbesAreTheNodes(t *testing.T) {
	m := readManifests(t)
	c := m.container(t)
	settings := settingsOf(t, "kubernetes/tollgate.yaml", "tollgate-0")
	named := map[string]uint32{}
	for _, p := range c.Ports {
		named[p.Name] = uint32(p.ContainerPort)
	}
	ports := portsOf(t, settings)
	require.Equal(t, map[string]uint32{"http": ports[0], "ops": ports[1], "raft": ports[2]}, named)
	for _, service := range []core.Service{m.nodes, m.client} {
		for _, p := range service.Spec.Ports {
			require.Contains(t, named, p.TargetPort.StrVal)
			if service.Name == m.nodes.Name { // members are addressed by it
				require.EqualValues(t, named[p.TargetPort.StrVal], p.Port)
			}
		}
	}
	allowed := map[string]bool{}
	for _, rule := range m.network.Spec.Ingress {
		for _, p := range rule.Ports {
			require.Contains(t, named, p.Port.StrVal)
			allowed[p.Port.StrVal] = true
			require.Equal(t, p.Port.StrVal == "http", len(rule.From) == 0, "who reaches %s", p.Port)
		}
	}
	require.Len(t, allowed, 3)

	require.NotEmpty(t, settings.OpsTLS, "the admin key travels there")
	for path, probe := range map[string]*core.Probe{
		"/healthz": c.LivenessProbe, "/readyz": c.ReadinessProbe,
	} {
		require.Equal(t, path, probe.HTTPGet.Path)
		require.Equal(t, "ops", probe.HTTPGet.Port.StrVal)
		require.Equal(t, core.URISchemeHTTPS, probe.HTTPGet.Scheme)
	}
	require.Equal(t, c.LivenessProbe.ProbeHandler, c.StartupProbe.ProbeHandler)
	require.Greater(t, c.StartupProbe.PeriodSeconds*c.StartupProbe.FailureThreshold, int32(1200),
		"a node may read its log for minutes")
	answers(t, "/healthz", "/readyz")

	require.NotNil(t, c.Lifecycle.PreStop.Sleep)
	pause := time.Duration(c.Lifecycle.PreStop.Sleep.Seconds) * time.Second
	grace := time.Duration(*m.set.Spec.Template.Spec.TerminationGracePeriodSeconds) * time.Second
	require.GreaterOrEqual(t, grace, pause+settings.StopTimeout+5*time.Second)
}

func TestKubernetesFilesAreMountedWhereTheNodeReadsThem(t *testing.T) {
	m := readManifests(t)
	c, pod := m.container(t), m.set.Spec.Template.Spec
	settings := settingsOf(t, "kubernetes/tollgate.yaml", "tollgate-0")
	mounts := map[string]string{}
	for _, mount := range c.VolumeMounts {
		mounts[mount.Name] = mount.MountPath
	}
	secrets := map[string]string{}
	for _, volume := range pod.Volumes {
		require.Contains(t, mounts, volume.Name)
		if volume.Secret != nil {
			secrets[volume.Secret.SecretName] = mounts[volume.Name]
		}
	}
	require.Len(t, m.set.Spec.VolumeClaimTemplates, 1)
	require.Len(t, mounts, len(pod.Volumes)+1)
	claim := mounts[m.set.Spec.VolumeClaimTemplates[0].Name]
	require.Equal(t, claim, filepath.Dir(settings.Data),
		"a folder of its own: the volume's root may hold lost+found, and is not the node's")

	var files []string
	for _, g := range m.kustomization.SecretGenerator {
		require.Contains(t, secrets, g.Name)
		for _, file := range g.Files {
			files = append(files, filepath.Join(secrets[g.Name], filepath.Base(file)))
		}
	}
	require.ElementsMatch(t, []string{
		c.Args[slices.Index(c.Args, "--config")+1],
		settings.TLS.Authority, settings.TLS.Certificate, settings.TLS.Key,
	}, files)
	require.Equal(t, settings.TLS.Certificate, settings.OpsTLS.Certificate)
	require.Equal(t, settings.TLS.Key, settings.OpsTLS.Key)
	require.Equal(t, c.Image, m.kustomization.Images[0].Name)
}

func TestKubernetesPodsAreBoundAndUnprivileged(t *testing.T) {
	m := readManifests(t)
	c, pod := m.container(t), m.set.Spec.Template.Spec
	require.True(t, *pod.SecurityContext.RunAsNonRoot)
	require.EqualValues(t, nobody, *pod.SecurityContext.RunAsUser)
	require.EqualValues(t, nobody, *pod.SecurityContext.FSGroup)
	require.Equal(t, core.SeccompProfileTypeRuntimeDefault, pod.SecurityContext.SeccompProfile.Type)
	require.False(t, *pod.AutomountServiceAccountToken)
	require.False(t, *c.SecurityContext.AllowPrivilegeEscalation)
	require.True(t, *c.SecurityContext.ReadOnlyRootFilesystem)
	require.Equal(t, []core.Capability{"ALL"}, c.SecurityContext.Capabilities.Drop)
	require.Equal(t, c.Resources.Requests.Memory(), c.Resources.Limits.Memory())
	require.NotContains(t, c.Resources.Limits, core.ResourceCPU, "a throttled leader loses its lease")
	for _, policy := range []apps.PersistentVolumeClaimRetentionPolicyType{
		m.set.Spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted,
		m.set.Spec.PersistentVolumeClaimRetentionPolicy.WhenScaled,
	} {
		require.Equal(t, apps.RetainPersistentVolumeClaimRetentionPolicyType, policy)
	}
}
