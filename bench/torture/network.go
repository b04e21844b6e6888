package torture

import (
	"errors"
	"fmt"

	"tollgate/bench/faultnet"
	"tollgate/bench/ports"
	"tollgate/cmd/tollgate/config"
)

// network is what lies between the nodes. What it cannot do it tells when it is closed.
type network interface {
	// Host is where the nodes reach this process.
	Host() string
	// Dial is the setting `dial` of a node.
	Dial(from string) map[string]string
	// Enter moves the calling thread, which is locked for good, to where a node runs.
	Enter(id string) error
	// Hold stops what goes from one node to another.
	Hold(from, to string)
	// Isolate stops what goes from and to a node.
	Isolate(id string)
	// Unplug lets a node, and those that want to reach it, know at once that there is no way.
	Unplug(id string)
	// Break ends connections.
	Break(from, to string)
	// Mend ends what the others began.
	Mend()
	Close() error
}

// The ports of every node in a namespace of its own.
const (
	httpPort = 8080
	opsPort  = 8081
	raftPort = 7000
)

// openNamespaces makes a network of the kernel's for the fleet and its guest.
func openNamespaces() (network, []config.Member, error) {
	var ids []string
	for i := range fleetSize + 1 {
		ids = append(ids, nodeID(i))
	}
	links, err := faultnet.OpenNamespaces(ids)
	if err != nil {
		return nil, nil, err
	}
	var members []config.Member
	for _, id := range ids {
		address := links.Address(id)
		members = append(members, config.Member{
			ID: id, HTTP: fmt.Sprintf("%s:%d", address, httpPort),
			Ops: fmt.Sprintf("%s:%d", address, opsPort), Raft: fmt.Sprintf("%s:%d", address, raftPort),
		})
	}
	return links, members, nil
}

// openProxies makes a network of proxies on this machine's loopback for the fleet and its guest.
func openProxies() (network, []config.Member, error) {
	block, err := ports.Take(3 * (fleetSize + 1))
	if err != nil {
		return nil, nil, fmt.Errorf("torture: %w", err)
	}
	address := func(i int) string { return fmt.Sprintf("127.0.0.1:%d", block.First+i) }
	var members []config.Member
	addresses := make(map[string]string)
	for i := range fleetSize + 1 {
		m := config.Member{
			ID: nodeID(i), HTTP: address(3 * i), Ops: address(3*i + 1), Raft: address(3*i + 2),
		}
		members = append(members, m)
		addresses[m.ID] = m.Raft
	}
	links, err := faultnet.Open(addresses)
	if err != nil {
		return nil, nil, errors.Join(err, block.Close())
	}
	return proxies{links, block}, members, nil
}

// proxies is a network of proxies with the ports of its nodes.
type proxies struct {
	*faultnet.Net
	ports *ports.Block
}

func (p proxies) Close() error { return errors.Join(p.Net.Close(), p.ports.Close()) }

func nodeID(i int) string { return fmt.Sprintf("node%d", i+1) }
