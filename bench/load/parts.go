package load

import (
	"slices"
	"strings"
)

// Parts are where the processor time of a node goes, in the order in which a request meets them.
var Parts = []string{
	partSockets, partFasthttp, partServer, partHandler, partPropose, partScheduler, partBetween,
	partLoops, partLog, partSegments, partCounts, partApply, partCollector, partOther,
}

// The parts by name.
const (
	partSockets   = "sockets of HTTP, mostly kernel"
	partFasthttp  = "fasthttp"
	partServer    = "`server/`: route, authentication, limits, metrics, connection wrapper"
	partHandler   = "handler: JSON, seal, decision, audit"
	partPropose   = "propose, park"
	partScheduler = "Go's scheduler, netpoll, futex"
	partBetween   = "between nodes: TLS, codec, Raft's pipeline"
	partLoops     = "Raft's and the cluster's loops"
	partLog       = "log of all nodes, mostly kernel"
	partSegments  = "journal segments of all nodes"
	partCounts    = "counts by hour of all nodes"
	partApply     = "Apply of all nodes"
	partCollector = "garbage collector"
	partOther     = "other"
)

// rule assigns a stack to a part: one that has a function whose name, after the folders, begins
// so. The first one counts. Within a client's connection others hold than outside.
type rule struct {
	part      string
	functions []string
}

var (
	anywhere = []rule{
		{partCollector, []string{"runtime.gc", "runtime.bgsweep", "runtime.bgscavenge"}},
		{partCounts, []string{"rollups."}},
		{partSegments, []string{"segments."}},
		{partLog, []string{"wal.", "cluster.(*past)", "cluster.(*spool", "peer.(*floorLog)"}},
		{partApply, []string{"raft.(*Raft).runFSM", "peer.(*floorNode).apply"}},
	}
	ofConnections = []rule{
		{partSockets, []string{"net.(*conn)."}},
		{partBetween, []string{"cluster.(*wire)"}},
		{partPropose, []string{
			"cluster.(*proposer)", "cluster.(*call)", "cluster.(*queue)", "cluster.(*Node).Propose",
			"peer.(*floorLeader).propose",
		}},
		{partServer, []string{
			"client.(*API).authenticate", "server.HashedKey", "peer.(*floorDesk).name",
			"peer.(*floorMetric)", "peer.floorRoute",
		}},
		{partHandler, []string{"client.", "peer.(*floorDesk).serve"}},
		{partServer, []string{"server.", "daemon.", "peer."}},
		{partFasthttp, []string{"fasthttp."}},
	}
	ofNodes = []rule{
		{partBetween, []string{
			"raft.(*Raft).replicate", "raft.(*Raft).pipeline", "raft.(*Raft).startStopReplication",
			"raft.(*NetworkTransport)", "raft.(*netPipeline)", "raft.sendRPC", "raft.decodeResponse",
			"cluster.(*wire)", "cluster.serveLink", "cluster.(*peering)", "cluster.(*transport)",
			"cluster.readMessage", "peer.(*floorWire)", "peer.(*floorLeader).hear", "tls.(*Conn)",
		}},
		{partLoops, []string{"raft.", "cluster.", "peer."}},
		{partScheduler, []string{"runtime."}},
	}
)

// partOf is the part that a stack belongs to, from the innermost function to the outermost.
func partOf(stack []string) string {
	names := make([]string, len(stack))
	for i, function := range stack {
		names[i] = function[strings.LastIndexByte(function, '/')+1:]
	}
	rules := slices.Concat(anywhere, ofNodes)
	if has(names, "fasthttp.(*Server).serveConn") {
		rules = slices.Concat(anywhere, ofConnections)
	}
	for _, r := range rules {
		if slices.ContainsFunc(r.functions, func(begin string) bool { return has(names, begin) }) {
			return r.part
		}
	}
	return partOther
}

// has reports whether a function's name begins so.
func has(names []string, begin string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, begin) })
}
