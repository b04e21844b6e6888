package cluster

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// greeting is what both ends of a connection say before anything else, after the stream's byte:
// 2 bytes of length, little endian, and this as JSON.
type greeting struct {
	// Node and Disk are whoever speaks, HTTP and Ops its other listeners.
	Node string `json:"node"`
	Disk string `json:"disk"`
	HTTP string `json:"http,omitempty"`
	Ops  string `json:"ops,omitempty"`
	// Version is the newest cluster version that the build of whoever speaks knows.
	Version uint32 `json:"version,omitempty"`
	// WantNode and WantDisk are whom the dialling end expects; "" is anybody.
	WantNode string `json:"wantNode,omitempty"`
	WantDisk string `json:"wantDisk,omitempty"`
	// Since is since when the speaker's folder is a member, as far as it knows, and WantSince since
	// when WantDisk is one, as the dialling end's list has it. See peer.since.
	Since     [2]uint64 `json:"since"`
	WantSince [2]uint64 `json:"wantSince"`
	// Claim is what the speaker's folder has behind it; nil where it has nothing yet.
	Claim *claim `json:"claim,omitempty"`
	// Waiting reports whether the answering end belongs to no cluster yet and waits to be joined.
	Waiting bool `json:"waiting,omitempty"`
	// Cluster is the identity of the answering node's cluster, said to strangers alone.
	Cluster string `json:"cluster,omitempty"`
	// Refused is why the answering end ends the connection, "" when it does not; Why is for people.
	Refused refusal `json:"refused,omitempty"`
	Why     string  `json:"why,omitempty"`
}

// refusal says why a node does not speak with another.
type refusal string

const (
	// refusedFolder: the cluster knows the dialling node by another folder.
	refusedFolder refusal = "folder"
	// refusedOutsider: the dialling node is not a member.
	refusedOutsider refusal = "outsider"
	// refusedMistaken: somebody else was expected here.
	refusedMistaken refusal = "mistaken"
	// refusedLater: the answering node's list of members is too old to have the dialling one's
	// folder.
	refusedLater refusal = "later"
	// refusedStranger: the dialling node is of another cluster, or of none yet.
	refusedStranger refusal = "stranger"
	// refusedPast: the dialling node's folder is an older copy of what it was; Why is what it
	// lacks.
	refusedPast refusal = "past"
)

// ErrOtherFolder means that the cluster knows this node by another data folder.
var ErrOtherFolder = errors.New("cluster: this data folder is not the one that the cluster knows")

var (
	errOutsider = errors.New("cluster: this node is not a member")
	errMistaken = errors.New("cluster: somebody else answers there")
	errLater    = errors.New("cluster: a node has not heard yet that this one was replaced")
	errGreeting = errors.New("cluster: malformed greeting")
)

// maxGreetingBytes bounds a greeting.
const maxGreetingBytes = 4 << 10

func sendGreeting(w io.Writer, g greeting) error {
	text, err := json.Marshal(g)
	if err != nil {
		return fmt.Errorf("cluster: greeting: %w", err)
	}
	_, err = w.Write(append(binary.LittleEndian.AppendUint16(nil, uint16(len(text))), text...))
	return err
}

func takeGreeting(r io.Reader) (greeting, error) {
	var head [2]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return greeting{}, err
	}
	size := binary.LittleEndian.Uint16(head[:])
	if size > maxGreetingBytes {
		return greeting{}, fmt.Errorf("%w: %d bytes", errGreeting, size)
	}
	text := make([]byte, size)
	if _, err := io.ReadFull(r, text); err != nil {
		return greeting{}, err
	}
	var g greeting
	if err := json.Unmarshal(text, &g); err != nil {
		return greeting{}, fmt.Errorf("%w: %w", errGreeting, err)
	}
	return g, nil
}

// door decides with whom this node speaks.
type door interface {
	// hail is what this node says to whom it dials.
	hail(address string) greeting
	// answer is what it says to whoever has dialled; with Refused set the connection ends.
	answer(stream byte, from greeting) greeting
	// meet judges what the dialled end has answered.
	meet(address string, from greeting) error
}

var _ door = (*Node)(nil)

// card is what this node says of itself.
func (n *Node) card() greeting {
	self, _ := n.config.member(n.config.NodeID)
	g := greeting{
		Node: n.config.NodeID, Disk: n.identity.Disk, HTTP: self.HTTP, Ops: self.Ops,
		Version: n.config.knownVersion(), Since: n.memberSince(),
	}
	if p := n.past.Load(); p != nil {
		g.Claim = &p.claimed
	}
	return g
}

// later reports whether a folder is a member since later than another, in one of the groups at
// least: the other's removal has been committed there.
func later(a, b [2]uint64) bool { return a[0] > b[0] || a[1] > b[1] }

// at finds the member that is reached at an address, as Raft's configuration has it.
func (n *Node) at(address string) (peer, bool) {
	for _, p := range n.roster() {
		if p.Raft == address {
			return p, true
		}
	}
	return peer{}, false
}

func (n *Node) hail(address string) greeting {
	g := n.card()
	if p, ok := n.at(address); ok {
		g.WantNode, g.WantDisk, g.WantSince = p.ID, p.disk, p.since
	}
	return g
}

func (n *Node) answer(stream byte, from greeting) greeting {
	if n.begun.Load() {
		select {
		case <-n.opened: // the members are known
		case <-n.closing:
		}
	}
	if from.WantDisk == n.identity.Disk {
		n.vouch(from.WantSince)
	}
	g := n.card()
	g.Waiting = n.waiting()
	if why := n.refuse(stream, from); why != nil {
		g.Refused, g.Why = why.code, why.text
	} else if lacks, err := n.admit(from); err != nil || lacks != "" {
		g.Refused, g.Why = refusedPast, lacks
		if err != nil {
			g.Refused, g.Why = refusedMistaken, err.Error()
		}
	}
	return g
}

// admit judges what a member says of its folder's past, and notes it. What the folder lacks is
// returned: it is an older copy. An error says that it could not be noted, and ends this process.
func (n *Node) admit(from greeting) (lacks string, err error) {
	past := n.past.Load()
	p, ok := n.member(from.Node)
	if past == nil || from.Claim == nil || !ok || p.disk != "" && p.disk != from.Disk ||
		from.Node == n.config.NodeID {
		return "", nil
	}
	n.gather()
	if lacks, err = past.admit(from.Node, from.Disk, *from.Claim); err != nil {
		n.fatal(err)
	}
	return lacks, err
}

// waiting reports whether this node belongs to no cluster yet.
func (n *Node) waiting() bool { return n.config.Join && !n.begun.Load() && len(n.roster()) == 0 }

type reason struct {
	code refusal
	text string
}

// refuse says why this node does not speak with another; nil when it does. Raft's own streams are
// open to those that this node does not know if they know its folder: then its list is the older
// one. Who does not know that has a log of its own, and would put it in place of this node's.
func (n *Node) refuse(stream byte, from greeting) *reason {
	if from.WantNode != "" && from.WantNode != n.config.NodeID {
		return &reason{refusedMistaken, fmt.Sprintf("this is node %s, not %s",
			n.config.NodeID, from.WantNode)}
	}
	if from.WantDisk != "" && from.WantDisk != n.identity.Disk {
		return &reason{refusedMistaken, fmt.Sprintf("node %s has another data folder than the "+
			"cluster knows: it was emptied or replaced", n.config.NodeID)}
	}
	list := n.roster()
	newer := from.WantDisk == n.identity.Disk
	for _, p := range list {
		if p.ID == n.config.NodeID && p.disk == "" {
			newer = true // no leader has noted this folder yet, so that nobody can know it
		}
		if p.ID != from.Node {
			continue
		}
		if p.disk != "" && p.disk != from.Disk {
			if from.WantDisk == n.identity.Disk && later(from.Since, p.since) {
				return behind(stream, from)
			}
			return &reason{refusedFolder, fmt.Sprintf("the cluster knows node %s by the data "+
				"folder %s, not %s", p.ID, p.disk, from.Disk)}
		}
		return nil
	}
	if len(list) > 0 && (stream == streamLink || !newer) {
		return &reason{refusedOutsider, "node " + from.Node + " is not a member"}
	}
	return nil
}

// behind is about who has replaced a member that is still in this node's list. That it knows this
// node's folder says that its list comes from the same log, further on. Raft may bring that here.
func behind(stream byte, from greeting) *reason {
	if stream != streamLink {
		return nil
	}
	return &reason{refusedLater, "node " + from.Node + " was replaced since this node was last " +
		"told of the members"}
}

// vouch notes since when this folder is a member, as somebody's list has it.
func (n *Node) vouch(since [2]uint64) {
	n.cardsLock.Lock()
	defer n.cardsLock.Unlock()
	for i, index := range since {
		n.since[i] = max(n.since[i], index)
	}
}

// memberSince is since when this folder is a member, as far as is known.
func (n *Node) memberSince() [2]uint64 {
	n.cardsLock.Lock()
	defer n.cardsLock.Unlock()
	return n.since
}

func (n *Node) meet(address string, from greeting) error {
	switch from.Refused {
	case "":
	case refusedFolder:
		return fmt.Errorf("%w (%s): nothing was changed; if the folder was lost, run `tollgate "+
			"cluster remove %s` on another node, empty the folder, start with `join: true`, and "+
			"run `tollgate cluster join`", ErrOtherFolder, from.Why, n.config.NodeID)
	case refusedOutsider:
		return fmt.Errorf("%w, says %s", errOutsider, from.Node)
	case refusedLater:
		return fmt.Errorf("%w: %s: %s", errLater, from.Node, from.Why)
	case refusedPast:
		return &putBackError{who: from.Node, lacks: from.Why}
	case refusedStranger:
		return &strangerError{address: address, node: from.Node, cluster: from.Cluster}
	default:
		return fmt.Errorf("%w: at %s: %s", errMistaken, address, from.Why)
	}
	if p, ok := n.at(address); ok {
		if p.ID != from.Node || p.disk != "" && p.disk != from.Disk {
			return fmt.Errorf("%w: at %s: node %s, folder %s", errMistaken, address, from.Node,
				from.Disk)
		}
	}
	if lacks, err := n.admit(from); err != nil {
		return err
	} else if lacks != "" {
		return fmt.Errorf("%w: at %s: the folder of node %s is an older copy, and lacks %s",
			errMistaken, address, from.Node, lacks)
	}
	n.cardsLock.Lock()
	defer n.cardsLock.Unlock()
	n.cards[from.Node] = from
	return nil
}
