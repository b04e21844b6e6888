// Image makes an OCI image of programs that are built already, for several platforms, as one
// archive:
//
//	image -version 1.2.3 -time SECONDS -notices FILE -o tollgate.oci.tar amd64=FILE arm64=FILE
//
// It needs no daemon, and the same programs make the same bytes. The image is that of
// deploy/Dockerfile (the program, the authorities of public web sites, an empty data folder)
// without its HEALTHCHECK, for which the format has no field: state it where the image is run.
// `skopeo copy --all oci-archive:FILE docker://REGISTRY/NAME:TAG` publishes it.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// user is who runs the program.
const user = 65532

// Media types of the OCI image specification 1.1.
const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

type object map[string]any

func main() {
	version := flag.String("version", "", "the release")
	seconds := flag.Int64("time", 0, "when it was made, in seconds since 1970")
	notices := flag.String("notices", "", "the licenses of linked software")
	out := flag.String("o", "", "the archive to make")
	flag.Parse()
	if err := run(*version, time.Unix(*seconds, 0).UTC(), *notices, *out, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(version string, at time.Time, notices, out string, programs []string) error {
	text, err := os.ReadFile(notices)
	if err != nil {
		return err
	}
	a := &archive{at: at, blobs: map[string][]byte{}}
	var manifests []object
	for _, p := range programs {
		arch, file, found := strings.Cut(p, "=")
		if !found {
			return fmt.Errorf("%q: want ARCHITECTURE=FILE", p)
		}
		program, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		m, err := a.image(arch, version, program, text)
		if err != nil {
			return err
		}
		manifests = append(manifests, m)
	}
	index, err := json.Marshal(object{
		"schemaVersion": 2, "mediaType": typeIndex, "manifests": manifests,
	})
	if err != nil {
		return err
	}
	named := a.put(typeIndex, index)
	named["annotations"] = object{"org.opencontainers.image.ref.name": tag(version)}
	top, err := json.Marshal(object{
		"schemaVersion": 2, "mediaType": typeIndex, "manifests": []object{named},
	})
	if err != nil {
		return err
	}
	return a.write(out, top)
}

// tag is a version as the tag of an image, in which ~ and + are not allowed.
func tag(version string) string {
	return strings.Map(func(c rune) rune {
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
			strings.ContainsRune("._-", c) {
			return c
		}
		return '-'
	}, version)
}

// archive is an OCI image layout.
type archive struct {
	at    time.Time
	blobs map[string][]byte
	order []string
}

// put keeps a blob, and returns its descriptor.
func (a *archive) put(media string, blob []byte) object {
	sum := sha256.Sum256(blob)
	name := hex.EncodeToString(sum[:])
	if a.blobs[name] == nil {
		a.order = append(a.order, name)
	}
	a.blobs[name] = blob
	return object{"mediaType": media, "digest": "sha256:" + name, "size": len(blob)}
}

// image makes the image of one platform, and returns the descriptor of its manifest.
func (a *archive) image(arch, version string, program, notices []byte) (object, error) {
	plain, packed, err := a.layer(program, notices)
	if err != nil {
		return nil, err
	}
	diff := sha256.Sum256(plain)
	config, err := json.Marshal(object{
		"created": a.at.Format(time.RFC3339), "architecture": arch, "os": "linux",
		"config": object{
			"User": fmt.Sprintf("%d:%[1]d", user), "Entrypoint": []string{"/tollgate"},
			"Cmd":          []string{"serve", "--config", "/etc/tollgate/tollgate.yaml"},
			"ExposedPorts": object{"8080/tcp": object{}, "9080/tcp": object{}, "7080/tcp": object{}},
			"Volumes":      object{"/data": object{}}, "StopSignal": "SIGTERM", "WorkingDir": "/",
			"Env":    []string{"PATH=/"},
			"Labels": object{"org.opencontainers.image.version": version},
		},
		"rootfs": object{
			"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(diff[:])},
		},
		"history": []object{{"created": a.at.Format(time.RFC3339), "created_by": "deploy/image"}},
	})
	if err != nil {
		return nil, err
	}
	manifest, err := json.Marshal(object{
		"schemaVersion": 2, "mediaType": typeManifest, "config": a.put(typeConfig, config),
		"layers": []object{a.put(typeLayer, packed)},
	})
	if err != nil {
		return nil, err
	}
	d := a.put(typeManifest, manifest)
	d["platform"] = object{"os": "linux", "architecture": arch}
	return d, nil
}

// layer is the file system, as a tar and compressed.
func (a *archive) layer(program, notices []byte) (plain, packed []byte, err error) {
	var b bytes.Buffer
	t := tar.NewWriter(&b)
	folder := func(name string, mode int64, owner int) {
		err = first(err, t.WriteHeader(&tar.Header{
			Typeflag: tar.TypeDir, Name: name, Mode: mode, Uid: owner, Gid: owner, ModTime: a.at,
			Format: tar.FormatUSTAR,
		}))
	}
	file := func(name string, mode int64, content []byte) {
		err = first(err, t.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(content)), ModTime: a.at,
			Format: tar.FormatUSTAR,
		}))
		if err == nil {
			_, err = t.Write(content)
		}
	}
	folder("certs/", 0o700, user)
	folder("data/", 0o700, user)
	for _, name := range []string{"etc/", "etc/ssl/", "etc/ssl/certs/", "licenses/"} {
		folder(name, 0o755, 0)
	}
	file("etc/ssl/certs/ca-certificates.crt", 0o644, authorities())
	file("licenses/notices.txt", 0o644, notices)
	folder("tmp/", 0o700, user)
	file("tollgate", 0o755, program)
	if err = first(err, t.Close()); err != nil {
		return nil, nil, err
	}
	var z bytes.Buffer
	w, err := gzip.NewWriterLevel(&z, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(b.Bytes())
		err = first(err, w.Close())
	}
	return b.Bytes(), z.Bytes(), err
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// authorities are those of Mozilla's list that are trusted without conditions.
func authorities() []byte {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			b.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return b.Bytes()
}

// write writes the layout as a tar.
func (a *archive) write(name string, index []byte) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	t := tar.NewWriter(f)
	put := func(name string, content []byte) {
		err = first(err, t.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(content)), ModTime: a.at,
			Format: tar.FormatUSTAR,
		}))
		if err == nil {
			_, err = io.Copy(t, bytes.NewReader(content))
		}
	}
	put("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`))
	put("index.json", index)
	for _, blob := range a.order {
		put("blobs/sha256/"+blob, a.blobs[blob])
	}
	return first(err, t.Close(), f.Close())
}
