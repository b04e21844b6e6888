package cluster

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/raft"
)

// peer is a member as Raft's configurations name it: they are the list of members, replicated with
// the log and in every snapshot. What Raft takes for an address is
//
//	host:port
//	host:port?disk=…&http=…&ops=…
//	host:port?disk=…&http=…&ops=…&since=…
//
// where the first form is that of a member of the beginning, until the leader has met it, and the
// last one that of a member that was joined.
type peer struct {
	Member
	// disk is the identity of its folder; "" as long as the leader has not met it.
	disk string
	// since is, per group, the log index at which this folder was joined; 0 for those of the
	// beginning. Of two folders of one name the later one has replaced the other.
	since [2]uint64
	// in and voter say, per group, whether the configuration has it, and with a vote.
	in, voter [2]bool
}

// address is what a group's configuration says of it.
func (p *peer) address(group uint16) raft.ServerAddress {
	if p.disk == "" {
		return raft.ServerAddress(p.Raft)
	}
	more := url.Values{"disk": {p.disk}, "http": {p.HTTP}, "ops": {p.Ops}}
	if since := p.since[group]; since > 0 {
		more.Set("since", strconv.FormatUint(since, 10))
	}
	return raft.ServerAddress(p.Raft + "?" + more.Encode())
}

// peerOf reads a server of a group's configuration.
func peerOf(s raft.Server, group int) peer {
	address, more, _ := strings.Cut(string(s.Address), "?")
	p := peer{Member: Member{ID: string(s.ID), Raft: address}}
	if values, err := url.ParseQuery(more); err == nil {
		p.disk, p.HTTP, p.Ops = values.Get("disk"), values.Get("http"), values.Get("ops")
		if since, err := strconv.ParseUint(values.Get("since"), 10, 64); err == nil {
			p.since[group] = since
		}
	}
	return p
}

// rosterOf joins the configurations of both groups into one list, by id.
func rosterOf(groups ...raft.Configuration) []peer {
	var list []peer
	for i, c := range groups {
		for _, s := range c.Servers {
			at := slices.IndexFunc(list, func(p peer) bool { return p.ID == string(s.ID) })
			p := peerOf(s, i)
			switch {
			case at < 0:
				at = len(list)
				list = append(list, p)
			case list[at].disk == "":
				list[at].Member, list[at].disk = p.Member, p.disk
			}
			if list[at].disk == p.disk {
				list[at].since[i] = p.since[i]
			}
			list[at].in[i], list[at].voter[i] = true, s.Suffrage == raft.Voter
		}
	}
	slices.SortFunc(list, func(a, b peer) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// roster is the present list of members. Before the groups are open it is that of the
// configuration, with which an empty cluster begins.
func (n *Node) roster() []peer {
	select {
	case <-n.opened:
		return rosterOf(n.groups[0].servers(), n.groups[1].servers())
	default:
		c := bootstrap(n.config.beginners())
		return rosterOf(c, c)
	}
}

func (n *Node) member(id string) (peer, bool) {
	for _, p := range n.roster() {
		if p.ID == id {
			return p, true
		}
	}
	return peer{}, false
}

// nameOf is the id of the member that raft knows at an address, "" where there is none.
func (n *Node) nameOf(at raft.ServerAddress) string {
	address, _, _ := strings.Cut(string(at), "?")
	for _, p := range n.roster() {
		if p.Raft == address {
			return p.ID
		}
	}
	return ""
}

// describe fills in what the configuration does not say of members of the beginning: their HTTP
// and operations addresses, as this node's own configuration has them.
func (c *Config) describe(m Member) Member {
	if told, ok := c.member(m.ID); ok && m.HTTP == "" && m.Ops == "" {
		m.HTTP, m.Ops = told.HTTP, told.Ops
	}
	return m
}

// Members is the list of nodes, as the cluster knows them.
func (n *Node) Members() []Member {
	var list []Member
	for _, p := range n.roster() {
		list = append(list, n.config.describe(p.Member))
	}
	return list
}

// Disk is the identity of this node's data folder, 16 hex digits: drawn when the folder was first
// used, and never the same for two folders.
func (n *Node) Disk() string { return n.identity.Disk }

// takeIn follows the list of members: links are opened and closed, who has left is shown out.
func (n *Node) takeIn() {
	list := n.roster()
	var voters []string
	wanted := make(map[string]peer)
	for _, p := range list {
		if p.voter[ShardBilling] || p.voter[ShardWorkspace] {
			voters = append(voters, p.ID)
		}
		if p.ID != n.config.NodeID {
			wanted[p.ID] = p
		} else if p.disk == n.identity.Disk {
			n.vouch(p.since)
		}
	}
	n.clocks.follow(voters)
	var gone []*link
	n.linksLock.Lock()
	for id, l := range n.links {
		if p, ok := wanted[id]; !ok || p.Raft != l.peer.Raft {
			gone = append(gone, l)
			delete(n.links, id)
		}
	}
	select {
	case <-n.closing:
	default:
		for id, p := range wanted {
			if n.links[id] == nil {
				n.links[id] = openLink(p.Member, n)
			}
		}
	}
	n.linksLock.Unlock()
	for _, l := range gone {
		l.Close()
	}
	n.port.expel(func(stream byte, g greeting) bool { return n.refuse(stream, g) != nil })
}

// linkTo is the link to a member; nil when there is none.
func (n *Node) linkTo(id string) *link {
	n.linksLock.Lock()
	defer n.linksLock.Unlock()
	return n.links[id]
}

func (n *Node) allLinks() []*link {
	n.linksLock.Lock()
	defer n.linksLock.Unlock()
	var list []*link
	for _, l := range n.links {
		list = append(list, l)
	}
	return list
}

// followMembers keeps what rests on the list of members up to date.
func (n *Node) followMembers() {
	for n.Billing().pause(n.Billing().ctx, routeEvery) {
		n.takeIn()
		if err := n.noteBeginning(); err != nil {
			n.fatal(err)
			return
		}
		for _, g := range n.groups {
			n.register(g)
		}
	}
}

// noteBeginning writes down that this folder has a past, as soon as it has one.
func (n *Node) noteBeginning() error {
	for _, g := range n.groups {
		if n.begun.Load() || len(g.servers().Servers) == 0 {
			return nil
		}
	}
	noted := n.identity
	noted.Begun = true
	if err := noted.save(n.config.Dir); err != nil {
		return err
	}
	n.begun.Store(true)
	return nil
}

// register writes into the configuration, where this node leads, which folder each member has, and
// where its other listeners are.
func (n *Node) register(g *Group) {
	if _, leads := g.Leads(); !leads {
		return
	}
	for _, s := range g.servers().Servers {
		p := peerOf(s, int(g.shard))
		met, ok := n.met(p.ID)
		if p.disk != "" || !ok {
			continue
		}
		select {
		case g.changing <- struct{}{}:
		default:
			return // an operator's change: later
		}
		p.disk, p.HTTP, p.Ops = met.Disk, met.HTTP, met.Ops
		// Nobody waits for it: the next look finds it done, or tries again.
		here, err := g.takeSeat()
		if err == nil {
			_, err = g.readdress(s, p.address(g.shard), here.index)
		}
		if err != nil {
			g.log.Debug("cannot note a member's folder yet", "member", p.ID, "error", err)
		}
		<-g.changing
		return
	}
}

// met is what another member said of itself when this node last reached it; this node's own word
// for itself.
func (n *Node) met(id string) (greeting, bool) {
	if id == n.config.NodeID {
		return n.card(), true
	}
	n.cardsLock.Lock()
	defer n.cardsLock.Unlock()
	g, ok := n.cards[id]
	return g, ok
}
