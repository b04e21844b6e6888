package main

import (
	"fmt"
	"log/slog"

	"github.com/valyala/fasthttp"
	"golang.org/x/sys/unix"

	"tollgate/cmd/tollgate/certs"
	"tollgate/cmd/tollgate/config"
	"tollgate/server"
)

// opsConnections is how many connections the operations listener holds at the most. ownFiles are
// the open files that a node needs besides those of its clients: logs, snapshots, segments, other
// nodes, and operations.
const (
	opsConnections = 1024
	ownFiles       = 1024 + opsConnections
)

// clientLimits are the limits of the client API's listener, opsLimits those of operations.
func (n *node) clientLimits() server.Limits {
	limits := server.DefaultLimits()
	limits.Connections = n.settings.Connections.Total
	limits.PerAddress = n.settings.Connections.PerAddress
	return limits
}

func (n *node) opsLimits() server.Limits {
	limits := n.clientLimits()
	limits.Connections = min(limits.Connections, opsConnections)
	limits.PerAddress = min(limits.PerAddress, opsConnections/2)
	return limits
}

// listenFor serves a handler on one of the node's two addresses, http or ops, over TLS where files
// are named.
func (n *node) listenFor(
	use string, handler fasthttp.RequestHandler, limits server.Limits,
) (*server.Server, error) {
	address, files := n.settings.HTTP, n.settings.HTTPTLS
	if use == "ops" {
		address, files = n.settings.Ops, n.settings.OpsTLS
	}
	if files == (config.Certificate{}) {
		return server.Listen(address, handler, limits)
	}
	pair, err := n.openPair(use, files)
	if err != nil {
		return nil, err
	}
	return server.ListenTLS(address, handler, limits, pair.Server())
}

// openPair reads a certificate and, until the node closes, takes what is put in its place.
func (n *node) openPair(use string, files config.Certificate) (*certs.Pair, error) {
	pair, err := certs.OpenPair(files.Certificate, files.Key, n.log)
	if err != nil {
		return nil, err
	}
	n.pairs[use] = pair
	n.watchers.Go(func() { pair.Watch(n.closing, certs.WatchEvery) })
	return pair, nil
}

// gateOf makes the gate of one listener. Each has its own: many clients leave operations answering.
func gateOf(c config.Connections) *server.Gate {
	return server.NewGate(c.Requests, int64(c.BodiesMiB)<<20)
}

// fitConnections lowers the number of connections to what the process's limit of open files allows:
// a node that has no file left for its log ends.
func fitConnections(c *config.Connections, log *slog.Logger) error {
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return fmt.Errorf("limit of open files: %w", err)
	}
	wanted := *c
	lowerConnections(c, files.Cur)
	if *c != wanted {
		log.Warn("fewer connections than configured: the limit of open files allows no more",
			"openFiles", files.Cur, "needed", wanted.Total+ownFiles,
			"connections", c.Total, "perAddress", c.PerAddress, "remedy", "ulimit -n, LimitNOFILE=")
	}
	return nil
}

// lowerConnections makes the connections fit into a number of open files.
func lowerConnections(c *config.Connections, files uint64) {
	room := uint64(1)
	if files > ownFiles+1 {
		room = files - ownFiles
	}
	c.Total = int(min(uint64(c.Total), room))
	c.PerAddress = min(c.PerAddress, c.Total)
}
