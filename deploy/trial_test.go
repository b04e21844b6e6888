package deploy_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/types"
	"github.com/stretchr/testify/require"
)

const (
	root     = ".."
	patience = 2 * time.Minute // for steps of a second or two on a quiet machine
	// nobody is the image's user and group.
	nobody   = 65532
	adminKey = "an admin key of this test"
	noKey    = "0000000000000000000000000000000000000000000000000000000000000000"
)

// trial is the cluster of the Compose file, run without a container engine: each service in a
// folder of its own that holds what the image holds, with that folder as its root and as the
// image's user. Services are reached at loopback addresses in place of their names.
type trial struct {
	folder, binary string
	image          dockerfile
	project        *types.Project
	address        map[string]string // of each node, by service
	rooms          map[string]*room
}

// room is one service's folder and, while it runs, its process.
type room struct {
	trial   *trial
	service types.ServiceConfig
	root    string
	// open rooms are entered without a change of root and user: then the process sees its own
	// limits, as it does in a container.
	open    bool
	process *exec.Cmd
	done    chan struct{}
	// printed and err, what ended it, are to be read after done.
	printed bytes.Buffer
	err     error
}

var (
	begin sync.Once
	ran   *trial
)

// TestMain ends the cluster after the last test.
func TestMain(m *testing.M) {
	code := m.Run()
	if ran != nil {
		ran.end()
	}
	os.Exit(code)
}

// running is the cluster, which the first test that asks for it starts.
func running(t *testing.T) *trial {
	t.Helper()
	begin.Do(func() { startTrial(t) })
	require.NotNil(t, ran, "the cluster did not start, see the other test")
	return ran
}

func startTrial(t *testing.T) {
	t.Helper()
	tr := &trial{
		image: readDockerfile(t), project: compose(t),
		address: loopback(t), rooms: map[string]*room{},
	}
	var err error
	tr.folder, err = os.MkdirTemp("", "tollgate-deploy-")
	require.NoError(t, err)
	tr.binary = filepath.Join(tr.folder, "out", "tollgate")
	began := false
	defer func() {
		if !began {
			tr.end()
		}
	}()
	tr.build(t)
	for name, service := range tr.project.Services {
		tr.rooms[name] = tr.furnish(t, service)
	}
	tr.rooms["node3"].open = true
	certs := tr.rooms["certs"]
	authority := ""
	for range 2 { // each `docker compose up` runs it again
		out, err := certs.command(certs.arguments(certs.service.Command)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		text, err := os.ReadFile(filepath.Join(certs.root, "certs", "ca.pem"))
		require.NoError(t, err)
		require.Contains(t, []string{"", string(text)}, authority, "the authority stays")
		authority = string(text)
	}
	for name := range tr.address {
		tr.rooms[name].bring(t, filepath.Join(certs.root, "certs"), "/certs")
	}

	tr.rooms["node1"].start(t)
	tr.rooms["node1"].await(t, func(out string, err error) bool { // alone it answers, not ready
		return err != nil && strings.Contains(out, "no leader is known")
	})
	tr.rooms["node2"].start(t)
	tr.rooms["node3"].start(t)
	for name := range tr.address {
		tr.rooms[name].waitReady(t)
	}
	began, ran = true, tr
}

// loopback draws addresses for the nodes that are unused on this machine.
func loopback(t *testing.T) map[string]string {
	t.Helper()
	for range 100 {
		net24 := fmt.Sprintf("127.%d.%d.", 1+rand.IntN(253), rand.IntN(254))
		listener, err := net.Listen("tcp", net24+"1:9080")
		if err == nil {
			require.NoError(t, listener.Close())
			return map[string]string{"node1": net24 + "1", "node2": net24 + "2", "node3": net24 + "3"}
		}
	}
	require.Fail(t, "no loopback address is free")
	return nil
}

// build runs the commands of the image's first stage, in the project's folder.
func (tr *trial) build(t *testing.T) {
	t.Helper()
	for _, run := range tr.image.all(0, "RUN") {
		command := exec.Command("sh", "-ec", strings.ReplaceAll(run.rest, "/out", tr.folder+"/out"))
		command.Dir = root
		out, err := command.CombinedOutput()
		require.NoError(t, err, "%s: %s", run.rest, out)
	}
}

// furnish makes a service's folder: what the image's last stage copies, and the files that Compose
// mounts.
func (tr *trial) furnish(t *testing.T, service types.ServiceConfig) *room {
	t.Helper()
	r := &room{trial: tr, service: service, root: filepath.Join(tr.folder, service.Name)}
	require.NoError(t, os.Mkdir(r.root, 0o755))
	require.NoError(t, os.Chmod(r.root, 0o755))
	for _, c := range tr.image.all(len(tr.image)-1, "COPY") {
		source, target, _ := strings.Cut(c.rest, " ")
		if built, ok := strings.CutPrefix(source, "/out/"); ok {
			source = filepath.Join(tr.folder, "out", built)
		} else if own, ok := strings.CutPrefix(source, "/src/"); ok {
			source = filepath.Join("..", own)
		}
		info, err := os.Stat(source)
		require.NoError(t, err, "COPY %s", c.rest)
		target = filepath.Join(r.root, target)
		require.NoError(t, os.MkdirAll(filepath.Dir(target), 0o755))
		if !info.IsDir() {
			text, err := os.ReadFile(source)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(target, text, info.Mode().Perm()))
			continue
		}
		require.NoError(t, os.Mkdir(target, 0o700))
		give(t, target)
	}
	for _, v := range service.Volumes {
		if v.Type != types.VolumeTypeBind {
			continue // a new volume is what the image has at its place
		}
		target := filepath.Join(r.root, v.Target)
		require.NoError(t, os.MkdirAll(filepath.Dir(target), 0o755))
		text, err := os.ReadFile(v.Source)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(target, []byte(r.settled(string(text))), 0o644))
	}
	return r
}

// give makes the image's user own a file, where this test may.
func give(t *testing.T, file string) {
	t.Helper()
	if os.Geteuid() == 0 {
		require.NoError(t, os.Chown(file, nobody, nobody))
	}
}

// bring copies a folder of files, the user's own, into the room.
func (r *room) bring(t *testing.T, from, to string) {
	t.Helper()
	target := filepath.Join(r.root, to)
	require.NoError(t, os.CopyFS(target, os.DirFS(from)))
	give(t, target)
	files, err := os.ReadDir(target)
	require.NoError(t, err)
	for _, file := range files {
		give(t, filepath.Join(target, file.Name()))
	}
}

// settled puts this machine's addresses in place of names, the test's key in place of none, and, in
// an open room, its folder before paths.
func (r *room) settled(text string) string {
	for name, address := range r.trial.address {
		text = regexp.MustCompile(`\b`+name+`:(\d)`).ReplaceAllString(text, address+":$1")
	}
	own := r.trial.address[r.service.Name]
	text = strings.NewReplacer("0.0.0.0:", own+":", "127.0.0.1:", own+":").Replace(text)
	hash := sha256.Sum256([]byte(adminKey))
	return strings.ReplaceAll(text, noKey, hex.EncodeToString(hash[:]))
}

// arguments are a command line, settled; hosts of certificates are addresses.
func (r *room) arguments(line []string) []string {
	settled := make([]string, len(line))
	for i, word := range line {
		settled[i] = r.settled(word)
		if i > 0 && line[i-1] == "--host" {
			settled[i] = r.trial.address[word]
		}
	}
	return settled
}

// command is the image's entry point with a command line, in the room.
func (r *room) command(line ...string) *exec.Cmd {
	if r.open {
		return exec.Command(r.trial.binary, line...)
	}
	command := exec.Command("/tollgate", line...)
	command.Dir, command.Env = "/", []string{"PATH=/"}
	command.SysProcAttr = &syscall.SysProcAttr{
		Chroot: r.root, Credential: &syscall.Credential{Uid: nobody, Gid: nobody},
	}
	if os.Geteuid() != 0 { // in a namespace where this user is the image's
		one := func(id int) []syscall.SysProcIDMap {
			return []syscall.SysProcIDMap{{ContainerID: nobody, HostID: id, Size: 1}}
		}
		command.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		command.SysProcAttr.UidMappings = one(os.Getuid())
		command.SysProcAttr.GidMappings = one(os.Getgid())
		command.SysProcAttr.Credential.NoSetGroups = true
	}
	return command
}

// start runs the service's command until stop. The kernel ends it with this process.
func (r *room) start(t *testing.T) {
	t.Helper()
	line := r.arguments(r.service.Command)
	if r.open {
		file := filepath.Join(r.root, "etc/tollgate/tollgate.yaml")
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		inRoom := regexp.MustCompile(` /(data|certs)\b`).ReplaceAllString(string(text), " "+r.root+"/$1")
		require.NoError(t, os.WriteFile(file, []byte(inRoom), 0o600))
		for i := range line {
			if strings.HasPrefix(line[i], "/") {
				line[i] = filepath.Join(r.root, line[i])
			}
		}
	}
	r.process, r.done = r.command(line...), make(chan struct{})
	r.printed.Reset()
	r.process.Stdout, r.process.Stderr = &r.printed, &r.printed
	if r.process.SysProcAttr == nil {
		r.process.SysProcAttr = &syscall.SysProcAttr{}
	}
	r.process.SysProcAttr.Pdeathsig = syscall.SIGKILL
	process, done, started := r.process, r.done, make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the signal comes when the thread dies that started the child
		defer runtime.UnlockOSThread()
		err := process.Start()
		started <- err
		if err == nil {
			r.err = process.Wait()
			close(done)
		}
	}()
	require.NoError(t, <-started)
}

// healthcheck runs the image's, in the room.
func (r *room) healthcheck(t *testing.T) (string, error) {
	t.Helper()
	check := r.trial.image.one(t, "HEALTHCHECK")
	words := instruction{"CMD", nil, strings.TrimPrefix(check.rest, "CMD ")}.list(t)
	require.Equal(t, "/tollgate", words[0])
	out, err := r.command(r.arguments(words[1:])...).CombinedOutput()
	return string(out), err
}

func (r *room) waitReady(t *testing.T) {
	t.Helper()
	r.await(t, func(_ string, err error) bool { return err == nil })
}

// await repeats the health check until it has the expected result, or the node has ended.
func (r *room) await(t *testing.T, wanted func(out string, err error) bool) {
	t.Helper()
	for end := time.Now().Add(patience); ; {
		select {
		case <-r.done:
			require.Fail(t, r.service.Name+" has ended", "%v %s", r.err, &r.printed)
		default:
		}
		out, err := r.healthcheck(t)
		if wanted(out, err) {
			return
		}
		require.True(t, time.Now().Before(end), "%s: %v %s", r.service.Name, err, out)
	}
}

// stop sends the image's stop signal and returns the exit state.
func (r *room) stop(t *testing.T, within time.Duration) error {
	t.Helper()
	require.Equal(t, "SIGTERM", r.trial.image.one(t, "STOPSIGNAL").rest)
	require.NoError(t, r.process.Process.Signal(syscall.SIGTERM))
	select {
	case <-r.done:
		return r.err
	case <-time.After(within):
		return fmt.Errorf("runs still after %s", within)
	}
}

// end kills the processes and removes everything.
func (tr *trial) end() {
	for _, r := range tr.rooms {
		if r.process != nil && r.process.Process != nil {
			_ = r.process.Process.Kill() // it may have ended
			select {
			case <-r.done:
			case <-time.After(patience):
			}
		}
	}
	if err := os.RemoveAll(tr.folder); err != nil {
		fmt.Fprintln(os.Stderr, "deploy:", err)
	}
}
