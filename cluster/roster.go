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
	// in and voter report, per group, whether the configuration has the member, and with a vote.
	in, voter [2]bool
}

// address is the member's address in a group's configuration.
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

// split takes apart what Raft takes for an address: host:port, and the identity of the folder, if
// it is known.
func split(address string) (plain, disk string) {
	p := peerOf(raft.Server{Address: raft.ServerAddress(address)}, 0)
	return p.Raft, p.disk
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

// describe fills in what the configuration lacks for the first members: their HTTP and operations
// addresses, from this node's own configuration.
func (c *Config) describe(m Member) Member {
	if told, ok := c.member(m.ID); ok && m.HTTP == "" && m.Ops == "" {
		m.HTTP, m.Ops = told.HTTP, told.Ops
	}
	return m
}

func bootstrap(members []Member) raft.Configuration {
	var c raft.Configuration
	for _, m := range members {
		c.Servers = append(c.Servers, raft.Server{
			Suffrage: raft.Voter, ID: raft.ServerID(m.ID), Address: raft.ServerAddress(m.Raft),
		})
	}
	return c
}
