package runner

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"tollgate/examples/sampleproduct"
	"tollgate/server/provider/fetch"
)

// TestMain is the keeper where an agent of a test is kept.
func TestMain(m *testing.M) {
	if code, called := Called(os.Args); called {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// script is an agent in a line of shell.
func script(text string) *Exec { return &Exec{Command: []string{"sh", "-c", text}} }

func ignore(Event) {}

func TestTheProtocol(t *testing.T) {
	var told []string
	emit := func(e Event) { told = append(told, e.Text+e.Credential) }
	task := Task{RunID: "run_1", URL: "https://p.example", Task: `$(touch /nothing) "quoted"`, Credential: "bearer"}
	r, err := script(`read line; echo "$line" >start.json; pwd >&2
		echo '{"type":"event","text":"opened"}'; echo '{"type":"heartbeat"}'
		echo '{"type":"credential","value":"k1"}'
		case "$line" in *'"type":"start"'*'quoted'*) echo '{"type":"done","step":"signup"}';; esac`).
		Run(context.Background(), task, emit)
	require.NoError(t, err)
	require.Equal(t, Report{Credential: "k1", Step: "signup"}, r)
	require.Equal(t, []string{"opened", "k1"}, told, "a key is told when it is handed over")

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
		"ends":          `read l`,
		"fails":         `exit 3`,
		"no message":    `echo hello; sleep 60`,
		"unknown":       `echo '{"type":"success"}'; sleep 60`,
		"a long line":   `head -c 70000 /dev/zero | tr '\0' x; echo; sleep 60`,
		"talks forever": `while :; do echo '{"type":"heartbeat"}'; done`,
		"no base64":     `echo '{"type":"need_human","checkpoint":"%"}'; sleep 60`,
		"keeps too much": `echo '{"type":"need_human","checkpoint":"'$(head -c 12000 /dev/zero | tr '\0' A)'"}'
			sleep 60`,
		"no key":    `echo '{"type":"credential"}'; echo '{"type":"done"}'; sleep 60`,
		"many keys": `yes '{"type":"credential","value":"k"}' | head -n 17; echo '{"type":"done"}'; sleep 60`,
		"a long key": `echo '{"type":"credential","value":"'$(head -c 5000 /dev/zero | tr '\0' A)'"}'
			echo '{"type":"done"}'; sleep 60`,
		"long keys": `for k in a b c; do
			echo '{"type":"credential","value":"'$k$(head -c 4000 /dev/zero | tr '\0' A)'"}'; done
			echo '{"type":"done"}'; sleep 60`,
		"does not listen": `exec 0<&-; sleep 60 & echo '{"type":"passed"}'`,
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			_, err := script(text).Run(context.Background(), Task{}, ignore)
			require.ErrorIs(t, err, ErrUnavailable)
			require.Equal(t, name == "no base64" || name == "keeps too much",
				errors.Is(err, ErrCheckpoint))
			require.Less(t, time.Since(began), 20*time.Second)
		})
	}
	_, err := (&Exec{Command: []string{"/nowhere/agent"}}).Run(context.Background(), Task{}, ignore)
	require.ErrorIs(t, err, ErrUnavailable)
}

// detached starts three processes, notes them in a file and waits until they have begun: a child,
// one in a session of its own that holds the output, and one of which nobody is the parent any
// more.
const detached = `env | grep -q hush && exit 9
	setsid sh -c 'echo $$ >>$0; exec sleep 600' FILE &
	(setsid sh -c 'echo $$ >>$0; exec sleep 600' FILE & )
	sleep 600 & echo $! >>FILE
	until [ $(wc -l <FILE) -ge COUNT ]; do :; done
	`

// TestNothingOfAnAgentIsLeft: neither after done, nor after its end, nor after a cancel that it
// does not heed does anything live on that it has started, however it was detached; what holds its
// output does not hold the run; its folder is gone; and it sees nothing of our environment.
func TestNothingOfAnAgentIsLeft(t *testing.T) {
	t.Setenv("TOLLGATE_SECRET", "hush")
	file, folder := filepath.Join(t.TempDir(), "pids"), t.TempDir()
	begun := 0
	run := func(ctx context.Context, then string, emit func(Event)) error {
		begun += 3
		text := strings.ReplaceAll(strings.ReplaceAll(detached, "FILE", file), "COUNT", strconv.Itoa(begun))
		agent := script(text + then)
		agent.Folder = folder
		began := time.Now()
		_, err := agent.Run(ctx, Task{}, emit)
		require.Less(t, time.Since(began), 2*time.Minute, "a descendant held the run")
		return err
	}
	require.NoError(t, run(t.Context(), `echo '{"type":"done"}'; sleep 600`, ignore))
	require.ErrorIs(t, run(t.Context(), `exit 0`, ignore), ErrUnavailable)
	for _, heeds := range []string{"exit 0", ":"} {
		ctx, cancel := context.WithCancel(t.Context())
		err := run(ctx, `echo '{"type":"event","text":"x"}'; while :; do read l || sleep 1; case "$l" in
			*cancel*) `+heeds+`;; esac; done`, func(Event) { cancel() })
		require.ErrorIs(t, err, context.Canceled)
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	pids := strings.Fields(string(text))
	require.Len(t, pids, 12)
	for _, text := range pids {
		pid, err := strconv.Atoi(text)
		require.NoError(t, err)
		require.True(t, gone(pid), "nothing is left when Run returns")
	}
	left, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Empty(t, left)
}

// TestAGraceIsTheTasks: of an agent that heeds no cancel nothing is waited for longer.
func TestAGraceIsTheTasks(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var cancelled time.Time
	_, err := script(`echo '{"type":"event","text":"x"}'; while :; do read l || sleep 1; done`).Run(ctx,
		Task{Grace: 10 * time.Millisecond}, func(Event) { cancelled = time.Now(); cancel() })
	require.ErrorIs(t, err, context.Canceled)
	require.Less(t, time.Since(cancelled), grace)
}

// TestAKeeperThatIsKilled does not hold the run, though what it kept holds the output.
func TestAKeeperThatIsKilled(t *testing.T) {
	pid := 0
	_, err := script(`echo '{"type":"event","text":"'$(ps -o ppid= -p $$)'"}'
		setsid sh -c 'echo "{\"type\":\"event\",\"text\":\"$$\"}"; exec sleep 120' & wait`).Run(t.Context(),
		Task{}, func(e Event) {
			told, err := strconv.Atoi(strings.TrimSpace(e.Text))
			require.NoError(t, err)
			if pid == 0 {
				pid = told
				return
			}
			require.NoError(t, syscall.Kill(pid, syscall.SIGKILL), "its keeper")
			pid = told
		})
	require.ErrorIs(t, err, ErrUnavailable)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL), "it lives, and held the output")
}

// TestAnAgentIsLimited in memory, files and their size.
func TestAnAgentIsLimited(t *testing.T) {
	agent := script(`read l; echo '{"type":"event","text":"'$(ulimit -n) $(ulimit -d) $(ulimit -c)'"}'
		head -c 3000000 /dev/zero 2>/dev/null >big; size=$(wc -c <big)
		echo '{"type":"event","text":"'$size'"}'; echo '{"type":"done"}'`)
	agent.Limits = Limits{MemoryMiB: 100, FileMiB: 1, OpenFiles: 50}
	var told []string
	_, err := agent.Run(t.Context(), Task{}, func(e Event) { told = append(told, e.Text) })
	require.NoError(t, err)
	require.Equal(t, []string{"50 102400 0", "1048576"}, told)
}

// TestSweep removes what a node left that was killed together with its keepers, and nothing else.
func TestSweep(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "agents")
	require.NoError(t, Sweep(folder))
	require.NoError(t, os.MkdirAll(filepath.Join(folder, runFolder+"1", "deep"), 0o700))
	require.NoError(t, os.Mkdir(filepath.Join(folder, "other"), 0o700))
	require.NoError(t, Sweep(folder))
	left, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Len(t, left, 1)
	require.Equal(t, "other", left[0].Name())
}

// gone reports whether a process has ended, or only waits for somebody to notice.
func gone(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return true
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || strings.Contains(string(stat), ") Z ")
}

// TestTheExampleAgent obtains a key from a product that hands one out, exchanges a code, and goes
// on when a person has found the code in an e-mail.
func TestTheExampleAgent(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "agent")
	build := exec.Command("go", "build", "-o", binary, "tollgate/examples/agent")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // what other tests have compiled already
	printed, err := build.CombinedOutput()
	require.NoError(t, err, string(printed))
	site := httptest.NewServer(sampleproduct.Site())
	defer site.Close()
	web, err := fetch.New(fetch.Config{
		AllowPrivate: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	})
	require.NoError(t, err)
	defer web.Close()
	agent := &Exec{Command: []string{binary}, Web: web}
	hosts := []string{strings.TrimPrefix(site.URL, "http://")}
	for _, variant := range []sampleproduct.Variant{sampleproduct.Good, sampleproduct.Exchange} {
		r, err := agent.Run(t.Context(), Task{
			URL: site.URL + "/" + string(variant) + "/", Credential: "bearer", Hosts: hosts,
		}, ignore)
		require.NoError(t, err)
		require.Contains(t, r.Credential, sampleproduct.KeyPrefix)
		require.Equal(t, "authenticate", r.Step)
	}
	for variant, code := range map[sampleproduct.Variant]string{
		sampleproduct.Captcha: "captcha", sampleproduct.Everything: "no_key",
	} {
		r, err := agent.Run(t.Context(), Task{
			URL: site.URL + "/" + string(variant) + "/", Credential: "bearer", Hosts: hosts,
		}, ignore)
		require.NoError(t, err)
		require.True(t, r.Blocked)
		require.True(t, r.Reached)
		require.Equal(t, code, r.Code)
	}

	r, err := agent.Run(t.Context(), Task{URL: site.URL + "/", Credential: "bearer"}, ignore)
	require.NoError(t, err)
	require.True(t, r.Blocked)
	require.False(t, r.Reached, "no host of it is the task's")

	mailed := Task{
		URL: site.URL + "/" + string(sampleproduct.EmailCode) + "/", Credential: "bearer", Hosts: hosts,
	}
	r, err = agent.Run(t.Context(), mailed, ignore)
	require.NoError(t, err)
	require.Contains(t, r.Question, "e-mail")
	mailbox, err := http.Get(mailed.URL + "mailbox")
	require.NoError(t, err)
	var box struct {
		Mails []struct{ Signup, Code string }
	}
	require.NoError(t, json.UnmarshalRead(mailbox.Body, &box, json.MatchCaseInsensitiveNames(true)))
	require.NoError(t, mailbox.Body.Close())
	require.Len(t, box.Mails, 1)
	require.Contains(t, string(r.Checkpoint), box.Mails[0].Signup)
	for _, answer := range []string{"WRONG1", " " + box.Mails[0].Code + "\n"} {
		mailed.Checkpoint, mailed.Answer = r.Checkpoint, answer
		again, err := agent.Run(t.Context(), mailed, ignore)
		require.NoError(t, err)
		require.Equal(t, answer == "WRONG1", again.Blocked)
		require.Equal(t, answer != "WRONG1", strings.Contains(again.Credential, sampleproduct.KeyPrefix))
	}
}
