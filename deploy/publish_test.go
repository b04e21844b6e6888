package deploy_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// madeRelease is a folder with the files of a release; their content does not matter.
func madeRelease(t *testing.T, version string) string {
	t.Helper()
	folder := t.TempDir()
	for _, name := range []string{
		"tollgate-" + version + ".oci.tar", "tollgate-" + version + "-linux-amd64.tar.gz",
		"tollgate_" + version + "_amd64.deb",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(name), 0o600))
	}
	run(t, folder, "sh", "-c", "sha256sum -- * > sums && mv sums SHA256SUMS")
	return folder
}

// publish runs the script; of the environment it has what is given, and programs in a folder before
// those of the system.
func publish(t *testing.T, programs string, environment []string, args ...string) (string, error) {
	t.Helper()
	script, err := filepath.Abs("publish")
	require.NoError(t, err)
	command := exec.Command(script, args...)
	command.Env = append([]string{
		"PATH=" + programs + ":/usr/local/bin:/usr/bin:/bin", "HOME=" + t.TempDir(), "TMPDIR=" + t.TempDir(),
	}, environment...)
	said, err := command.CombinedOutput()
	return string(said), err
}

func where(page string) []string {
	return []string{
		"REGISTRY=registry.example.com/tollgate", "REGISTRY_USER=me", "REGISTRY_PASSWORD=pass word",
		"RELEASES=acme/tollgate", "RELEASES_TOKEN=token of the page", "RELEASES_API=" + page,
		"RELEASES_UPLOADS=" + page,
	}
}

// TestWhatWouldBePublished: a dry run needs no key, and sends nothing.
func TestWhatWouldBePublished(t *testing.T) {
	folder := madeRelease(t, "1.2.3")
	said, err := publish(t, "", nil, "--dry-run", folder)
	require.NoError(t, err, said)
	for _, want := range []string{
		"# not set: REGISTRY\n", "# not set: RELEASES_TOKEN\n",
		"skopeo copy --all --preserve-digests oci-archive:tollgate-1.2.3.oci.tar docker://$REGISTRY:1.2.3\n",
		"POST https://api.github.com/repos/$RELEASES/releases  v1.2.3, a draft\n",
		"assets?name=tollgate_1.2.3_amd64.deb  24 bytes\n", "assets?name=SHA256SUMS", "no draft any more\n",
	} {
		require.Contains(t, said, want)
	}
	said, err = publish(t, "", where("http://page.example"), "--dry-run", folder)
	require.NoError(t, err, said)
	require.Contains(t, said, "docker://registry.example.com/tollgate:1.2.3")
	require.NotContains(t, said, "not set")
	require.NotContains(t, said, "pass word")
	require.NotContains(t, said, "token of the page")
}

// TestWhatIsNotPublished: what is not, file by file, a release; and without keys nothing.
func TestWhatIsNotPublished(t *testing.T) {
	change := func(f func(folder string)) string {
		folder := madeRelease(t, "1.2.3")
		f(folder)
		return folder
	}
	for want, folder := range map[string]string{
		"there is no release in": "/nowhere",
		"has no SHA256SUMS": change(func(folder string) {
			require.NoError(t, os.Remove(filepath.Join(folder, "SHA256SUMS")))
		}),
		"tollgate_1.2.3_amd64.deb: FAILED": change(func(folder string) {
			require.NoError(t, os.WriteFile(filepath.Join(folder, "tollgate_1.2.3_amd64.deb"), nil, 0o600))
		}),
		"notes.txt is not in SHA256SUMS": change(func(folder string) {
			require.NoError(t, os.WriteFile(filepath.Join(folder, "notes.txt"), nil, 0o600))
		}),
		"want one image": change(func(folder string) {
			run(t, folder, "sh", "-c", "rm *.oci.tar && sed -i /oci/d SHA256SUMS")
		}),
		"is the version of a commit without a tag": madeRelease(t, "0.0.0~20261127.0123456789ab"),
		"set REGISTRY REGISTRY_USER REGISTRY_PASSWORD RELEASES RELEASES_TOKEN in the environment": madeRelease(t,
			"1.2.3"),
	} {
		said, err := publish(t, "", nil, folder)
		require.Error(t, err, want)
		require.Contains(t, said, want)
	}
	said, err := publish(t, "", nil, "--dryrun")
	require.Error(t, err)
	require.Contains(t, said, "want [--dry-run] [FOLDER]")
}

// page is a release page: what it was asked for, in order.
type page struct {
	t     *testing.T
	asked []string
	there string // the tag of a release that there is
}

func (p *page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	require.NoError(p.t, err)
	if r.Header.Get("Authorization") != "Bearer token of the page" {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"message":"Bad credentials"}`)
		return
	}
	text := string(body)
	if len(text) > 60 {
		text = "…"
	}
	p.asked = append(p.asked, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+text))
	switch {
	case r.Method == "GET":
		_ = json.NewEncoder(w).Encode([]map[string]string{{"tag_name": p.there}})
	case strings.HasSuffix(r.URL.Path, "/releases"):
		var made struct {
			Tag   string `json:"tag_name"`
			Draft bool
			Body  string
		}
		require.NoError(p.t, json.Unmarshal(body, &made))
		require.Equal(p.t, "v1.2.3", made.Tag)
		require.True(p.t, made.Draft)
		require.Contains(p.t, made.Body, "registry.example.com/tollgate:1.2.3@sha256:")
		fmt.Fprint(w, `{"id": 7}`)
	default:
		fmt.Fprint(w, `{"html_url": "https://page.example/v1.2.3"}`)
	}
}

// skopeo is a program in place of it: a registry that is a file, if there is one.
const skopeo = `#!/bin/sh
echo "$@" >> "$SKOPEO/asked"
case "$*" in
*copy*)
	echo made > "$SKOPEO/image"
	cat "$TMPDIR"/*/registry.json > "$SKOPEO/keys" ;;
*oci-archive:*) echo made ;;
*)
	[ ! -e "$SKOPEO/fails" ] || { cat "$SKOPEO/fails" >&2; exit 1; }
	[ -e "$SKOPEO/image" ] || { echo 'reading manifest 1.2.3: manifest unknown' >&2; exit 1; }
	cat "$SKOPEO/image" ;;
esac
`

// record puts programs in place of those of the system that note their arguments first.
func record(t *testing.T, programs string, names ...string) {
	for _, name := range names {
		program, err := exec.LookPath(name)
		require.NoError(t, err)
		text := fmt.Sprintf("#!/bin/sh\nprintf '%%s\\n' \"$*\" >> \"$SKOPEO/asked\"\nexec %s \"$@\"\n", program)
		require.NoError(t, os.WriteFile(filepath.Join(programs, name), []byte(text), 0o700))
	}
}

// TestAReleaseIsPublished: the image, then the page, which shows it when it is whole. Keys are in
// no argument.
func TestAReleaseIsPublished(t *testing.T) {
	folder, programs := madeRelease(t, "1.2.3"), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(programs, "skopeo"), []byte(skopeo), 0o700))
	record(t, programs, "jq", "curl", "base64")
	p := &page{t: t, there: "v1.2.2"}
	server := httptest.NewServer(p)
	defer server.Close()
	environment := append(where(server.URL), "SKOPEO="+programs)
	said, err := publish(t, programs, environment, folder)
	require.NoError(t, err, said)
	require.Contains(t, said, "https://page.example/v1.2.3")
	at := "/repos/acme/tollgate/releases"
	require.Equal(t, []string{
		"GET " + at + "?per_page=100", "POST " + at + " …",
		"POST " + at + "/7/assets?name=tollgate-1.2.3-linux-amd64.tar.gz tollgate-1.2.3-linux-amd64.tar.gz",
		"POST " + at + "/7/assets?name=tollgate-1.2.3.oci.tar tollgate-1.2.3.oci.tar",
		"POST " + at + "/7/assets?name=tollgate_1.2.3_amd64.deb tollgate_1.2.3_amd64.deb",
		"POST " + at + "/7/assets?name=SHA256SUMS …", "PATCH " + at + `/7 {"draft": false}`,
	}, p.asked)
	asked, err := os.ReadFile(filepath.Join(programs, "asked"))
	require.NoError(t, err)
	require.Contains(t, string(asked),
		"oci-archive:tollgate-1.2.3.oci.tar docker://registry.example.com/tollgate")
	require.Contains(t, string(asked), "--arg tag v1.2.3")
	const key = "bWU6cGFzcyB3b3Jk" // me:pass word
	for _, secret := range []string{"pass word", key, "token of the page"} {
		require.NotContains(t, string(asked), secret)
	}
	keys, err := os.ReadFile(filepath.Join(programs, "keys"))
	require.NoError(t, err)
	require.JSONEq(t, `{"auths": {"registry.example.com": {"auth": "`+key+`"}}}`, string(keys))

	p.there, p.asked = "v1.2.3", nil
	said, err = publish(t, programs, environment, folder)
	require.Error(t, err)
	require.Contains(t, said, "there is a release v1.2.3")
	require.Len(t, p.asked, 1, "which was asked for, and no more")
	require.NoError(t, os.WriteFile(filepath.Join(programs, "image"), []byte("other"), 0o600))
	said, err = publish(t, programs, environment, folder)
	require.Error(t, err)
	require.Contains(t, said, "is another image; nothing was sent")
	require.Len(t, p.asked, 1)
	require.NoError(t, os.Remove(filepath.Join(programs, "image")))
	said, err = publish(t, programs, append(environment, "RELEASES_TOKEN=wrong"), folder)
	require.Error(t, err)
	require.Contains(t, said, "the release page does not answer: {\"message\":\"Bad credentials\"}")
	require.NoFileExists(t, filepath.Join(programs, "image"), "nothing was sent to the registry")
	p.there, p.asked = "v1.2.2", nil
	const unsure = "whether registry.example.com/tollgate:1.2.3 exists; nothing was sent: "
	for fails, want := range map[string]string{
		"unauthorized: access denied": "create an empty one first", "received unexpected HTTP status: 503": unsure,
		"StatusCode: 401": "does not let me see registry.example.com/tollgate", "": unsure,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(programs, "fails"), []byte(fails), 0o600))
		said, err = publish(t, programs, environment, folder)
		require.Error(t, err)
		require.Contains(t, said, want)
		require.Regexp(t, "(?i)nothing was sent: "+fails, said)
		require.NoFileExists(t, filepath.Join(programs, "image"), "one that is there would be written over")
		require.Empty(t, p.asked)
	}
}

// TestWhatPublishingNeedsIsInstalled: the tests above run the script with the system's own tools.
func TestWhatPublishingNeedsIsInstalled(t *testing.T) {
	text, err := os.ReadFile("../.ci/run")
	require.NoError(t, err)
	for _, tool := range []string{"curl", "jq"} {
		require.Regexp(t, `for program in .*\b`+tool+`\b`, string(text))
		require.Regexp(t, `apt-get install .*\b`+tool+`\b`, string(text))
	}
}

// run runs a program that must succeed, and returns what it printed.
func run(t *testing.T, folder, program string, args ...string) string {
	t.Helper()
	command := exec.Command(program, args...)
	command.Dir = folder
	said, err := command.CombinedOutput()
	require.NoError(t, err, string(said))
	return string(said)
}
