package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Version is the newest cluster version that this build knows. A log that has not agreed on a
// version is at 0.
var Version = newest - uint32(len(earlier))

// newest is the version of this source: 1, the first release. It is raised by one, once per
// release, when entries, snapshots or the effects of commands change in a way that older builds do
// not understand; commands that came with it name it in their row (machine.Command.Since).
const newest uint32 = 1

// earlier makes a build know one version less for each of its letters. Nothing but the linker sets
// it, for a test in which such a build takes the place of an earlier release.
var earlier string

// ErrNewerVersion means that a log, a snapshot or a data folder belongs to a cluster whose version
// this build does not know. It is wrapped with advice.
var ErrNewerVersion = errors.New("engine: the cluster is of a newer version than this build")

// AppendSetVersion appends the payload of a KindSetVersion record: the version, 4 bytes, little
// endian.
func AppendSetVersion(dst []byte, version uint32) []byte {
	return binary.LittleEndian.AppendUint32(dst, version)
}

// ParseSetVersion reads a payload that AppendSetVersion wrote. The error wraps ErrNewerVersion when
// the machine does not know the version.
func ParseSetVersion(payload []byte, known uint32) (version uint32, err error) {
	if len(payload) != 4 {
		return 0, fmt.Errorf("payload of %d bytes, a version has 4", len(payload))
	}
	version = binary.LittleEndian.Uint32(payload)
	return version, CheckVersion(version, known)
}

// CheckVersion compares the version of a log or a snapshot with the newest that a machine knows.
// Its error wraps ErrNewerVersion.
func CheckVersion(version, known uint32) error {
	if version > known {
		return fmt.Errorf("%w: it has version %d, this build knows up to %d: start a newer build",
			ErrNewerVersion, version, known)
	}
	return nil
}
