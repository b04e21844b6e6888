package cluster

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// lines are what was logged, a line at a time.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// with are the lines that have all of these texts.
func (l *lines) with(texts ...string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		has := true
		for _, text := range texts {
			has = has && strings.Contains(line, text)
		}
		if has {
			found = append(found, line)
		}
	}
	return found
}

// A node that is down is warned of once a minute, of both groups together, by its name, and in no
// other words; and again at once when it was back and is lost once more.
func TestALostNodeIsWarnedOfOnceAMinuteByName(t *testing.T) {
	said := make(map[string]*lines)
	logged := func(id string, c *Config) {
		said[id] = &lines{}
		c.Log = slog.New(slog.NewTextHandler(said[id], nil))
	}
	inCluster(t, logged, func(c *nodes) {
		leader := c.leader()
		gone := c.others(leader)[0]
		warnings := func() []string { return said[leader].with("level=WARN", "peer="+gone+" ") }
		before := len(warnings())
		c.stop(gone)
		time.Sleep(150 * time.Second)
		found := warnings()[before:]
		require.Len(t, found, 3, "%s", found)
		for i, line := range found {
			require.Contains(t, line, `msg="a node does not answer"`)
			require.NotContains(t, line, "disk=", "the address has more in it than people need")
			require.Equal(t, i > 0, strings.Contains(line, "repeated="), line)
		}
		require.Empty(t, said[leader].with("level=WARN", "failed to "), "nor by an address alone")
		c.start(gone)
		c.eventually("it is back", func() bool {
			return len(said[leader].with("level=INFO", "a node answers again", "peer="+gone)) > 0
		})
		time.Sleep(10 * time.Second) // a link of it that failed as it started answers too, by then
		before = len(warnings())
		c.stop(gone)
		c.eventually("it is missed at once", func() bool { return len(warnings()) > before })
	})
}

func TestWarningsAreOfAPeerAndBounded(t *testing.T) {
	var out bytes.Buffer
	about := &peerWarnings{name: func(raft.ServerAddress) string { return "" }}
	log := raftLogger(slog.New(slog.NewTextHandler(&out, nil)), nil, about)
	log.Error("no peer is in it", "index", 1)
	log.Error("no peer is in it", "index", 2)
	require.Equal(t, 2, strings.Count(out.String(), "no peer is in it"))
	out.Reset()
	log.Error("failed", "peer", raft.Server{ID: "a", Address: "h:1?disk=x"})
	log.Error("failed", "peer", raft.Server{ID: "b", Address: "h:2?disk=x"})
	log.Error("failed", "peer", raft.Server{ID: "a", Address: "h:1?disk=x"})
	log.Warn("failed", "peer", raft.ServerAddress("h:3?disk=x"))
	require.Equal(t, 3, strings.Count(out.String(), "level=WARN msg=failed"))
	require.Contains(t, out.String(), "peer=h:3\n", "an address that is nobody's")
	now := time.Now()
	for i := range 3 * maxWarnings {
		about.due(strings.Repeat("x", i), "a", now)
	}
	require.LessOrEqual(t, len(about.last), maxWarnings+1)
}
