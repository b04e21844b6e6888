package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type descriptor struct {
	MediaType, Digest string
	Size              int
	Platform          struct{ OS, Architecture string }
	Annotations       map[string]string
}

func untar(t *testing.T, r io.Reader) (files map[string][]byte, heads map[string]*tar.Header) {
	t.Helper()
	files, heads = map[string][]byte{}, map[string]*tar.Header{}
	for archive := tar.NewReader(r); ; {
		head, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files, heads
		}
		require.NoError(t, err)
		files[head.Name], err = io.ReadAll(archive)
		require.NoError(t, err)
		heads[head.Name] = head
	}
}

// TestAnImage: the same programs make the same bytes, from which each platform's program is reached
// by digests alone.
func TestAnImage(t *testing.T) {
	folder := t.TempDir()
	in := func(name, content string) string {
		name = filepath.Join(folder, name)
		require.NoError(t, os.WriteFile(name, []byte(content), 0o600))
		return name
	}
	notices := in("notices", "licenses")
	programs := []string{"amd64=" + in("a", "program a"), "arm64=" + in("b", "program b")}
	made := func(name string) []byte {
		name = filepath.Join(folder, name)
		require.NoError(t, run("1.2.3~4+5", time.Unix(1790000000, 0).UTC(), notices, name, programs))
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		return data
	}
	one := made("one")
	require.True(t, bytes.Equal(one, made("two")))
	require.Error(t, run("1", time.Time{}, notices, filepath.Join(folder, "x"), []string{"amd64"}))

	files, _ := untar(t, bytes.NewReader(one))
	require.JSONEq(t, `{"imageLayoutVersion":"1.0.0"}`, string(files["oci-layout"]))
	blob := func(d descriptor, to any) []byte {
		data := files["blobs/sha256/"+d.Digest[len("sha256:"):]]
		sum := sha256.Sum256(data)
		require.Equal(t, d.Digest, "sha256:"+hex.EncodeToString(sum[:]))
		require.Len(t, data, d.Size)
		if to != nil {
			require.NoError(t, json.Unmarshal(data, to))
		}
		return data
	}
	var top, index struct{ Manifests []descriptor }
	require.NoError(t, json.Unmarshal(files["index.json"], &top))
	require.Equal(t, "1.2.3-4-5", top.Manifests[0].Annotations["org.opencontainers.image.ref.name"])
	blob(top.Manifests[0], &index)
	require.Len(t, index.Manifests, 2)
	for i, want := range []string{"amd64", "arm64"} {
		d := index.Manifests[i]
		require.Equal(t, "linux/"+want, d.Platform.OS+"/"+d.Platform.Architecture)
		var manifest struct {
			Config descriptor
			Layers []descriptor
		}
		blob(d, &manifest)
		var config struct {
			Architecture string
			Config       struct {
				User       string
				Entrypoint []string
			}
			Rootfs struct {
				Diffs []string `json:"diff_ids"`
			}
		}
		blob(manifest.Config, &config)
		require.Equal(t, want, config.Architecture)
		require.Equal(t, "65532:65532", config.Config.User)
		z, err := gzip.NewReader(bytes.NewReader(blob(manifest.Layers[0], nil)))
		require.NoError(t, err)
		plain, err := io.ReadAll(z)
		require.NoError(t, err)
		sum := sha256.Sum256(plain)
		require.Equal(t, "sha256:"+hex.EncodeToString(sum[:]), config.Rootfs.Diffs[0])
		tree, heads := untar(t, bytes.NewReader(plain))
		require.Equal(t, "program "+string("ab"[i]), string(tree["tollgate"]))
		require.EqualValues(t, 0o755, heads["tollgate"].Mode)
		require.Equal(t, []int{user, 0o700}, []int{heads["data/"].Uid, int(heads["data/"].Mode)})
		require.Equal(t, "licenses", string(tree["licenses/notices.txt"]))
		pool := x509.NewCertPool()
		require.True(t, pool.AppendCertsFromPEM(tree["etc/ssl/certs/ca-certificates.crt"]))
	}
}
