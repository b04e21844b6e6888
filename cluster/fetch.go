package cluster

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"tollgate/cluster/segments"
	"tollgate/engine/journal"
)

// fetchTimeout bounds the fetch of one segment of 8 MiB.
const fetchTimeout = 30 * time.Second

// fetch gets a journal segment from the first other node that has it, over a connection of its
// own, so that nothing waits behind it. The error is segments.ErrDropped when one has dropped it:
// it has applied more of the log than this node, whose own manifest is about to lose the segment.
func (n *Node) fetch(
	ctx context.Context, shard uint16, info journal.SegmentInfo,
) ([]byte, error) {
	err := fmt.Errorf("cluster: no other node has %s", info)
	for _, l := range n.allLinks() {
		if cerr := ctx.Err(); cerr != nil {
			return nil, cerr
		}
		data, ferr := n.fetchFrom(l.peer, shard, info)
		if ferr == nil {
			return data, nil
		}
		err = errors.Join(err, ferr)
	}
	return nil, err
}

func (n *Node) fetchFrom(m Member, shard uint16, info journal.SegmentInfo) (_ []byte, err error) {
	conn, err := n.port.dial(m.Raft, streamLink, n.config.RPCTimeout)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if err := conn.SetDeadline(time.Now().Add(fetchTimeout)); err != nil {
		return nil, err
	}
	w := bufio.NewWriter(conn)
	name := binary.AppendUvarint(binary.AppendUvarint(nil, uint64(info.Part)), info.Number)
	ask := message{callSegment, shard, 1, name}
	if err := errors.Join(writeMessage(w, ask), w.Flush()); err != nil {
		return nil, err
	}
	m2, err := readMessage(bufio.NewReaderSize(conn, 256<<10), maxAnswer)
	if err != nil {
		return nil, err
	}
	switch {
	case len(m2.payload) > 0 && m2.payload[0] == segmentHere:
		return m2.payload[1:], nil
	case len(m2.payload) > 0 && m2.payload[0] == segmentDropped:
		return nil, fmt.Errorf("%w: %s, says %s", segments.ErrDropped, info, m.ID)
	}
	return nil, fmt.Errorf("cluster: %s does not have %s", m.ID, info)
}
