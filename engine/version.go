package engine

import (
	"encoding/binary"
	"errors"
)

// Version is the newest cluster version that this build knows. It is raised by one, once for a
// release, whenever entries, snapshots or what commands do become something that older builds do
// not understand; kinds that came with it get a row in their machine's table of Since.
//
//	0  builds that do not know of versions
//	1  SetVersion; billing's kinds from 181 on, workspace's from 46 on
const Version uint32 = 1

// ErrNewerVersion says that a log, a snapshot or a data folder belongs to a cluster whose version
// this build does not know. It is wrapped with what to do.
var ErrNewerVersion = errors.New("engine: the cluster is of a newer version than this build")

// Since is from which cluster version on kinds from First on may be proposed, up to the First of
// the next row.
type Since struct {
	First   Kind
	Version uint32
}

// SinceOf is from which cluster version on a kind may be proposed, by a machine's table, whose rows
// ascend; 0 is always.
func SinceOf(table []Since, kind Kind) (version uint32) {
	for _, row := range table {
		if kind >= row.First {
			version = row.Version
		}
	}
	return version
}

// AppendSetVersion appends the payload of a KindSetVersion record: the version, 4 bytes, little
// endian.
func AppendSetVersion(dst []byte, version uint32) []byte {
	return binary.LittleEndian.AppendUint32(dst, version)
}

// ParseSetVersion reads a payload that AppendSetVersion wrote; false when it is none.
func ParseSetVersion(payload []byte) (version uint32, ok bool) {
	if len(payload) != 4 {
		return 0, false
	}
	return binary.LittleEndian.Uint32(payload), true
}
