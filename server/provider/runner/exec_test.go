package runner

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// script is an agent in a line of shell.
func script(text string) *Exec { return &Exec{Command: []string{"sh", "-c", text}} }

func ignore(Event) {}

func TestTheProtocol(t *testing.T) {
	var told []string
	tell := func(e Event) { told = append(told, e.Text) }
	task := Task{RunID: "run_1", URL: "https://p.example", Task: `$(touch /nothing) "quoted"`, Credential: "bearer"}
	r, err := script(`read line; echo "$line" >start.json; pwd >&2
		echo '{"type":"event","text":"opened"}'; echo '{"type":"heartbeat"}'
		echo '{"type":"credential","value":"k1"}'
		case "$line" in *'"type":"start"'*'quoted'*) echo '{"type":"done","step":"signup"}';; esac`).
		Run(context.Background(), task, tell)
	require.NoError(t, err)
	require.Equal(t, Report{Credential: "k1", Step: "signup"}, r)
	require.Equal(t, []string{"opened"}, told)

	r, err = script(`read l; echo '{"type":"need_human","question":"code?","checkpoint":"cGFnZSAy"}'; sleep 60`).
		Run(context.Background(), task, ignore)
	require.NoError(t, err)
	require.Equal(t, Report{Question: "code?", Checkpoint: []byte("page 2")}, r)
	task.Checkpoint = r.Checkpoint
	r, err = script(`read l; case "$l" in *'"resume"'*cGFnZSAy*) echo '{"type":"done","blocked":true,"code":"captcha"}';; esac`).
		Run(context.Background(), task, ignore)
	require.NoError(t, err)
	require.Equal(t, Report{Blocked: true, Code: "captcha"}, r)
}

func TestAgentsThatDoNotKeepToIt(t *testing.T) {
	for name, text := range map[string]string{
		"ends":            `read l`,
		"fails":           `exit 3`,
		"no message":      `echo hello; sleep 60`,
		"unknown":         `echo '{"type":"success"}'; sleep 60`,
		"a long line":     `head -c 70000 /dev/zero | tr '\0' x; echo; sleep 60`,
		"talks for ever":  `while :; do echo '{"type":"heartbeat"}'; done`,
		"no base64":       `echo '{"type":"need_human","checkpoint":"%"}'; sleep 60`,
		"does not listen": `exec 0<&-; sleep 60 & echo '{"type":"passed"}'`,
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			_, err := script(text).Run(context.Background(), Task{}, ignore)
			require.ErrorIs(t, err, ErrUnavailable)
			require.Less(t, time.Since(began), 20*time.Second)
		})
	}
	_, err := (&Exec{Command: []string{"/nowhere/agent"}}).Run(context.Background(), Task{}, ignore)
	require.ErrorIs(t, err, ErrUnavailable)
}

// TestNothingOfAnAgentIsLeft: neither after done nor after a cancel does a child live on, and the
// agent sees nothing of our environment.
func TestNothingOfAnAgentIsLeft(t *testing.T) {
	t.Setenv("TOLLGATE_SECRET", "hush")
	file := filepath.Join(t.TempDir(), "pids")
	child := `env | grep -q hush && exit 9; sleep 600 & echo $! >>` + file + `; `
	_, err := script(child+`echo '{"type":"done"}'; sleep 600`).Run(context.Background(), Task{}, ignore)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	said := func(Event) { cancel() }
	_, err = script(child+`echo '{"type":"event"}'; while read l; do
		case "$l" in *cancel*) exit 0;; esac; done`).Run(ctx, Task{}, said)
	require.ErrorIs(t, err, context.Canceled)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	pids := strings.Fields(string(text))
	require.Len(t, pids, 2)
	for _, text := range pids {
		pid, err := strconv.Atoi(text)
		require.NoError(t, err)
		require.Eventually(t, func() bool { return gone(pid) }, 5*time.Second, 10*time.Millisecond)
	}
}

// gone says that a process has ended, or only waits for somebody to notice.
func gone(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return true
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || strings.Contains(string(stat), ") Z ")
}

// TestTheExampleAgent obtains a key from a product that hands one out.
func TestTheExampleAgent(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "agent")
	build := exec.Command("go", "build", "-o", binary, "tollgate/examples/agent")
	printed, err := build.CombinedOutput()
	require.NoError(t, err, string(printed))
	product := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "POST" && r.URL.Path == "/keys" {
			_, err := w.Write([]byte(`{"key":"pk_1"}`))
			require.NoError(t, err)
			return
		}
		http.NotFound(w, r)
	}))
	defer product.Close()
	agent := &Exec{Command: []string{binary}}
	r, err := agent.Run(context.Background(), Task{URL: product.URL, Credential: "bearer"}, ignore)
	require.NoError(t, err)
	require.Equal(t, Report{Credential: "pk_1", Step: "authenticate"}, r)
	r, err = agent.Run(context.Background(), Task{URL: product.URL + "/x", Credential: "bearer"}, ignore)
	require.NoError(t, err)
	require.True(t, r.Blocked)
	require.Equal(t, "no_key", r.Code)
}
