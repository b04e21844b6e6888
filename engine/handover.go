package engine

import "encoding/binary"

// MaxNodeID is the length in bytes that a node's name may have.
const MaxNodeID = 255

// HandOver is the payload of a KindHandOver record: the leader of Term gives its leadership to
// Target. Its read lease ended before the record was submitted, so nothing depends any longer on
// the other nodes' promise not to vote for another node. State machines ignore it.
type HandOver struct {
	Term   uint64
	Target string
}

// AppendHandOver appends the payload: the term, 8 bytes, little endian, and the target's name.
func AppendHandOver(dst []byte, h HandOver) []byte {
	return append(binary.LittleEndian.AppendUint64(dst, h.Term), h.Target...)
}

// ParseHandOver reads a payload that AppendHandOver wrote; false when it is none.
func ParseHandOver(payload []byte) (HandOver, bool) {
	if len(payload) <= 8 || len(payload) > 8+MaxNodeID {
		return HandOver{}, false
	}
	return HandOver{
		Term: binary.LittleEndian.Uint64(payload), Target: string(payload[8:]),
	}, true
}
