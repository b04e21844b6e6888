package daemon

import (
	"log/slog"

	"github.com/valyala/fasthttp"

	"tollgate/cluster"
	"tollgate/cmd/tollgate/certs"
	"tollgate/cmd/tollgate/config"
	"tollgate/cmd/tollgate/doctor"
	"tollgate/engine/fair"
	"tollgate/server"
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
	limits.Connections = min(limits.Connections, doctor.OpsConnections)
	limits.PerAddress = min(limits.PerAddress, doctor.OpsConnections/2)
	return limits
}

// listenFor serves a handler on one of the node's two addresses, http or ops, over TLS where files
// are named.
func (n *node) listenFor(
	use string, handler fasthttp.RequestHandler, limits server.Limits,
) (*server.Server, error) {
	address, files := n.settings.HTTP, n.settings.HTTPTLS
	if use == doctor.UseOps {
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
func (n *node) gateOf(c config.Connections) *server.Gate {
	return server.NewGate(c.Requests, int64(c.BodiesMiB)<<20, func(f fair.Flow) int {
		return n.weight(cluster.ShardBilling, f)
	})
}

// fitConnections lowers the number of connections to what the process's limit of open files allows:
// a node that has no file left for its log ends.
func fitConnections(c *config.Connections, log *slog.Logger) error {
	files, err := doctor.FileLimit()
	if err != nil {
		return err
	}
	wanted := *c
	lowerConnections(c, files)
	if *c != wanted {
		log.Warn("fewer connections than configured: the limit of open files does not allow more",
			"openFiles", files, "needed", wanted.Total+doctor.OwnFiles,
			"connections", c.Total, "perAddress", c.PerAddress, "remedy", "ulimit -n, LimitNOFILE=")
	}
	return nil
}

// lowerConnections makes the connections fit into a number of open files.
func lowerConnections(c *config.Connections, files uint64) {
	room := uint64(1)
	if files > doctor.OwnFiles+1 {
		room = files - doctor.OwnFiles
	}
	c.Total = int(min(uint64(c.Total), room))
	c.PerAddress = min(c.PerAddress, c.Total)
}
