package cli

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// screens stay open. A prompt that was left restores its terminal when what it reads has ended, by
// a number that a file opened later must not have.
var screens []*os.File

// terminal returns a terminal, what a person types on it, and a function that waits until a text is
// written on it and returns all that was.
func terminal(t *testing.T) (screen, keys *os.File, shows func(want string) string) {
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { keys.Close() })
	fd := int(keys.Fd())
	require.NoError(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	require.NoError(t, err)
	screen, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	screens = append(screens, screen)
	read, text := make(chan string, 100), ""
	go func() {
		defer close(read)
		b := make([]byte, 1000)
		for {
			n, err := keys.Read(b)
			if err != nil {
				return
			}
			read <- string(b[:n])
		}
	}()
	return screen, keys, func(want string) string {
		late := time.After(10 * time.Second)
		for !strings.Contains(text, want) {
			select {
			case more := <-read:
				text += more
			case <-late:
				require.Contains(t, text, want)
			}
		}
		return text
	}
}

// on makes a terminal a stream of the process for the time of the test.
func on(t *testing.T, stream **os.File, file *os.File) {
	old := *stream
	*stream = file
	t.Cleanup(func() { *stream = old })
}

func TestColoursAreForTerminals(t *testing.T) {
	screen, _, _ := terminal(t)
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "xterm")
	require.True(t, Colours(screen))
	require.True(t, Colours(&page{on: screen}))
	t.Setenv("TERM", "dumb")
	require.False(t, Colours(screen))
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "1")
	require.False(t, Colours(screen))
}

func TestProgressIsDrawnAndTakenAway(t *testing.T) {
	screen, _, shows := terminal(t)
	on(t, &os.Stderr, screen)
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "dumb")
	none := StartProgress("none", 0)
	require.Nil(t, none.ended)
	none.End()
	t.Setenv("TERM", "xterm")
	p := StartProgress("saving", 0)
	require.Equal(t, eraseLine+"saving, 1s", shows("1s"))
	within := StartProgress("within", 0) // there is one line
	require.Nil(t, within.ended)
	within.End()
	p.End()
	fmt.Fprint(screen, "answer")
	require.Regexp(t, "saving, 1s\r\x1b\\[Kanswer$", shows("answer"))
}

// TestAPromptShowsNoSecretAndCanBeLeft: with Ctrl-C, whose signal ends the context.
func TestAPromptShowsNoSecretAndCanBeLeft(t *testing.T) {
	screen, keys, shows := terminal(t)
	on(t, &os.Stdin, screen)
	on(t, &os.Stderr, screen)
	ctx, interrupt := context.WithCancel(context.Background())
	in := bufio.NewReader(os.Stdin)
	typed := make(chan string)
	ask := func() {
		secret, err := askSecret(ctx, in, "Admin key")
		typed <- fmt.Sprint(secret, err)
	}
	go ask()
	shows("Admin key: ")
	echoes := func() bool {
		mode, err := unix.IoctlGetTermios(int(screen.Fd()), unix.TCGETS)
		require.NoError(t, err)
		return mode.Lflag&unix.ECHO != 0
	}
	require.Eventually(t, func() bool { return !echoes() }, 10*time.Second, time.Millisecond)
	fmt.Fprint(keys, "hidden\n")
	require.Equal(t, "hidden<nil>", <-typed)
	require.Equal(t, "Admin key: \r\n", shows("\n"))
	go ask()
	shows("\nAdmin key: ")
	interrupt()
	select {
	case said := <-typed:
		require.Equal(t, context.Canceled.Error(), said)
	case <-time.After(10 * time.Second):
		t.Fatal("the prompt goes on")
	}
	require.True(t, echoes(), "the shell shows what is typed again")
	for range 5 { // left before it began to read
		go ask()
		require.Equal(t, context.Canceled.Error(), <-typed)
		require.True(t, echoes())
	}
}
