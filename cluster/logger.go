package cluster

import (
	"context"
	"io"
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

// raftLogger lets Raft speak through slog. Raft calls every lost heartbeat an error; here it is a
// warning, for a node that is down is no fault of this one.
// Once quiet is closed it says nothing: connections that end are what a stop is about.
func raftLogger(log *slog.Logger, quiet <-chan struct{}) hclog.Logger {
	l := hclog.NewInterceptLogger(&hclog.LoggerOptions{
		Name: "raft", Level: hclog.Off, Output: io.Discard,
	})
	l.RegisterSink(sink{log, quiet})
	return l
}

type sink struct {
	log   *slog.Logger
	quiet <-chan struct{}
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
	s.log.Log(context.Background(), to, msg, args...)
}
