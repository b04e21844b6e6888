package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"tollgate/cluster"
	"tollgate/cmd/tollgate/config"
	"tollgate/cmd/tollgate/devdata"
)

// ServeCommand runs a node.
type ServeCommand struct {
	NodeFlags `embed:""`
	Sample    bool `help:"Print a configuration file with every setting and its default."`
}

// NodeFlags say which node it is.
type NodeFlags struct {
	Config string   `type:"existingfile" placeholder:"FILE" help:"Configuration file; flags override it."`
	Node   string   `placeholder:"ID" help:"The node's name."`
	Data   string   `placeholder:"DIR" help:"Folder for everything the node keeps."`
	HTTP   string   `name:"http" placeholder:"HOST:PORT" help:"Where to serve the client API."`
	Ops    string   `placeholder:"HOST:PORT" help:"Where to serve operations: admin API, metrics, health."`
	Raft   string   `placeholder:"HOST:PORT" help:"Where to talk to the other nodes."`
	Member []string `placeholder:"ID=HOST:PORT" help:"A node of a new cluster and its raft address; repeatable, this node included."`
	Join   bool     `help:"With an empty folder, begin no cluster: wait for \"tollgate cluster join\"."`
	Hash   string   `name:"admin-key-hash" placeholder:"HEX" help:"SHA-256 of the admin key."`
}

// AfterApply comes before anything of the node is open and any signal is waited for.
func (c *ServeCommand) AfterApply() error {
	if c.Sample {
		return nil
	}
	if err := loosenTimers(); err != nil {
		fmt.Fprintln(os.Stderr, "tollgate: timers will cost more than they need to:", err)
	}
	return nil
}

// Run runs the node until a signal ends it.
func (c *ServeCommand) Run(ctx context.Context) error {
	if c.Sample {
		fmt.Print(config.Sample)
		return nil
	}
	settings, err := c.Settings()
	log := newLog(settings)
	if err != nil && settings.Log.Format == "json" {
		return logged(log, err)
	}
	if err != nil {
		return err // of several lines, one for each setting
	}
	slog.SetDefault(log)
	settings.LimitMemory()
	unlock, err := devdata.Lock(devdata.NodeLock(settings.Data), false)
	if errors.Is(err, devdata.ErrLocked) {
		err = fmt.Errorf("%s is in use: another node runs there", settings.Data)
	}
	if err != nil {
		return logged(log, err)
	}
	if err = errors.Join(serve(ctx, settings, log), unlock()); err != nil {
		return logged(log, err)
	}
	return nil
}

// LoggedError is an error that is the last line of the log already, in the log's own format.
type LoggedError struct{ error }

func (e LoggedError) Unwrap() error { return e.error }

func logged(log *slog.Logger, err error) error {
	log.Error("this process ends", "error", cluster.Remedied(err))
	return LoggedError{err}
}

// serve runs a node whose folder is ours.
func serve(ctx context.Context, settings config.Config, log *slog.Logger) error {
	log.Info("node starts", "node", settings.Node, "version", Version(), "http", settings.HTTP,
		"ops", settings.Ops, "raft", settings.Raft, "data", settings.Data)
	n, err := openNode(settings, log)
	if err != nil {
		return err
	}
	<-ctx.Done()
	log.Info("node stops")
	err = n.close()
	log.Info("node stopped")
	return err
}

// Settings are the file's, with the flags above it.
func (c *NodeFlags) Settings() (config.Config, error) {
	settings := config.Default()
	if c.Config != "" {
		var err error
		if settings, err = config.Load(c.Config); err != nil {
			return settings, err
		}
	}
	for flag, setting := range map[*string]*string{
		&c.Node: &settings.Node, &c.Data: &settings.Data, &c.HTTP: &settings.HTTP,
		&c.Ops: &settings.Ops, &c.Raft: &settings.Raft, &c.Hash: &settings.AdminKeyHash,
	} {
		if *flag != "" {
			*setting = *flag
		}
	}
	settings.Join = settings.Join || c.Join
	if len(c.Member) > 0 {
		settings.Members = nil
	}
	for _, text := range c.Member {
		id, address, ok := strings.Cut(text, "=")
		if !ok {
			return settings, fmt.Errorf("--member %q: want ID=HOST:PORT", text)
		}
		settings.Members = append(settings.Members, config.Member{ID: id, Raft: address})
	}
	settings.Complete()
	if err := settings.Validate(); err != nil {
		return settings, fmt.Errorf("configuration (tollgate serve --sample shows one):\n%w", err)
	}
	folder, err := filepath.Abs(settings.Data)
	if err != nil {
		return settings, fmt.Errorf("data: %w", err)
	}
	settings.Data = folder
	return settings, nil
}

func newLog(settings config.Config) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(settings.Log.Level)); err != nil {
		level = slog.LevelInfo // Validate has refused what is not a level
	}
	options := &slog.HandlerOptions{Level: level}
	if settings.Log.Format == "json" {
		return slog.New(slog.NewJSONHandler(os.Stderr, options))
	}
	return slog.New(slog.NewTextHandler(os.Stderr, options))
}
