package cluster

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// greeting is the first message of both ends of a connection, after the stream's byte: 2 bytes of
// length, little endian, and this as JSON.
type greeting struct {
	// Node and Disk are the speaker's, HTTP and Ops its other listeners.
	Node string `json:"node"`
	Disk string `json:"disk"`
	HTTP string `json:"http,omitempty"`
	Ops  string `json:"ops,omitempty"`
	// Version is the newest cluster version that the speaker's build knows.
	Version uint32 `json:"version,omitempty"`
	// WantNode and WantDisk are what the dialling end expects; "" means any.
	WantNode string `json:"wantNode,omitempty"`
	WantDisk string `json:"wantDisk,omitempty"`
	// Since is the log indexes at which the speaker's folder joined, as far as it knows, and WantSince
	// those of WantDisk in the dialling end's list. See peer.since.
	Since     [2]uint64 `json:"since"`
	WantSince [2]uint64 `json:"wantSince"`
	// Claim describes the history of the speaker's folder; nil for an empty folder.
	Claim *claim `json:"claim,omitempty"`
	// Waiting reports whether the answering end belongs to no cluster yet and waits to be joined.
	Waiting bool `json:"waiting,omitempty"`
	// Cluster is the identity of the answering node's cluster, set only for nodes of other clusters.
	Cluster string `json:"cluster,omitempty"`
	// Refused is why the answering end closes the connection, "" if it does not; Why explains it to
	// people.
	Refused refusal `json:"refused,omitempty"`
	Why     string  `json:"why,omitempty"`
}

// refusal is why a node refuses the connection of another.
type refusal string

const (
	// refusedFolder: the cluster knows the dialling node by another folder.
	refusedFolder refusal = "folder"
	// refusedNotMember: the dialling node is not a member.
	refusedNotMember refusal = "outsider"
	// refusedMistaken: another node was expected here.
	refusedMistaken refusal = "mistaken"
	// refusedLater: the answering node's list of members is older than the dialling node's folder.
	refusedLater refusal = "later"
	// refusedForeign: the dialling node is of another cluster, or of none yet.
	refusedForeign refusal = "stranger"
	// refusedPast: the dialling node's folder is an older copy; Why is what it lacks.
	refusedPast refusal = "past"
)

// ErrOtherFolder means that the cluster knows this node by another data folder.
var ErrOtherFolder = errors.New("cluster: this data folder is not the one that the cluster knows")

var (
	errNotMember = errors.New("cluster: this node is not a member")
	errMistaken  = errors.New("cluster: another node answers there")
	errLater     = errors.New("cluster: a node has not heard yet that this one was replaced")
	errGreeting  = errors.New("cluster: malformed greeting")
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

// greeter decides which nodes may connect.
type greeter interface {
	// introduce is this node's greeting to an address that it dials.
	introduce(address string) greeting
	// answer is the greeting for a node that has dialled; with Refused set the connection ends.
	answer(stream byte, from greeting) greeting
	// meet checks the greeting of the dialled end.
	meet(address string, from greeting) error
}
