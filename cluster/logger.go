package cluster

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// raftLogger sends Raft's log messages to slog. Raft logs every lost heartbeat as an error; here it
// is a warning, because another node's failure is not a fault of this one. It logs nothing once
// quiet is closed, since a node that stops ends its connections. It names peers by their ids and
// repeats a warning about a peer at most once a minute; unanswered messages of all kinds count as
// one warning.
func raftLogger(log *slog.Logger, quiet <-chan struct{}, about *peerWarnings) hclog.Logger {
	l := hclog.NewInterceptLogger(&hclog.LoggerOptions{
		Name: "raft", Level: hclog.Off, Output: io.Discard,
	})
	l.RegisterSink(sink{log, quiet, about})
	return l
}

type sink struct {
	log   *slog.Logger
	quiet <-chan struct{}
	about *peerWarnings
}

// Accept takes one message of Raft's.
func (s sink) Accept(_ string, level hclog.Level, msg string, args ...any) {
	select {
	case <-s.quiet:
		return
	default:
	}
	to := slog.LevelDebug
	switch level {
	case hclog.Warn, hclog.Error:
		to = slog.LevelWarn
	case hclog.Info:
		to = slog.LevelInfo
	}
	if !s.log.Enabled(context.Background(), to) {
		return
	}
	for i, a := range args {
		if f, ok := a.(hclog.Format); ok && len(f) > 0 {
			args[i] = f[1:]
		}
	}
	peer := s.about.rename(args)
	if peer != "" && to == slog.LevelWarn {
		if unanswered[msg] {
			msg = noAnswer
		}
		held, due := s.about.due(msg, peer, time.Now())
		if !due {
			return
		}
		if held > 0 {
			args = append(args, "repeated", held)
		}
	}
	s.log.Log(context.Background(), to, msg, args...)
}

const (
	// warnEvery is how often the same warning about the same peer is written. A node that is down
	// is tried several times a second, in each group.
	warnEvery = time.Minute
	// maxWarnings bounds how many different ones are remembered.
	maxWarnings = 1024
)

// noAnswer is logged for a peer that cannot be reached, instead of Raft's message for each kind of
// request that fails.
const noAnswer = "a node does not answer"

var unanswered = map[string]bool{
	"failed to heartbeat to": true, "failed to appendEntries to": true, "failed to contact": true,
	"failed to pipeline appendEntries": true, "failed to start pipeline replication to": true,
	"failed to make requestVote RPC": true,
}

// peerWarnings are those about other nodes, of all of a node's groups together.
type peerWarnings struct {
	// name is the name of the peer at an address, "" where it is not known.
	name func(raft.ServerAddress) string

	mu   sync.Mutex
	last map[warning]*warned
}

type warning struct{ text, peer string }

// warned is when a warning was last written, and how often it was suppressed since.
type warned struct {
	at   time.Time
	held int
}

// rename replaces raft's various keys for a peer by "peer", its address by its name, and returns
// the name; "" if the message is not about a peer.
func (p *peerWarnings) rename(args []any) (peer string) {
	for i := 0; i+1 < len(args); i += 2 {
		switch args[i] {
		case "peer", "server-id", "target", "id":
		default:
			continue
		}
		switch v := args[i+1].(type) {
		case raft.Server:
			peer = string(v.ID)
		case raft.ServerID:
			peer = string(v)
		case raft.ServerAddress:
			peer = p.named(v)
		default:
			continue
		}
		args[i], args[i+1] = "peer", peer
	}
	return peer
}

// named is the name of the peer at an address; if unknown, the bare address.
func (p *peerWarnings) named(at raft.ServerAddress) string {
	if p != nil && p.name != nil {
		if name := p.name(at); name != "" {
			return name
		}
	}
	address, _, _ := strings.Cut(string(at), "?")
	return address
}

// due reports whether to write a warning now, and how often it was held back since the last one.
func (p *peerWarnings) due(text, peer string, now time.Time) (held int, due bool) {
	if p == nil {
		return 0, true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last == nil || len(p.last) > maxWarnings {
		p.last = make(map[warning]*warned)
	}
	w := p.last[warning{text, peer}]
	switch {
	case w == nil:
		p.last[warning{text, peer}] = &warned{at: now}
		return 0, true
	case now.Sub(w.at) < warnEvery:
		w.held++
		return 0, false
	}
	held = w.held
	*w = warned{at: now}
	return held, true
}

// over forgets what was said of a peer: it answers again.
func (p *peerWarnings) over(peer string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for w := range p.last {
		if w.peer == peer {
			delete(p.last, w)
		}
	}
}
