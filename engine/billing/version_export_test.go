package billing

import "bytes"

// SnapshotOfVersion is a snapshot of the machine as a cluster of that version would have it.
func SnapshotOfVersion(m *Machine, version uint32) []byte {
	s := m.state.Load()
	before := s.version.Swap(version)
	defer s.version.Store(before)
	fixed, err := m.Snapshot()
	if err != nil {
		panic(err)
	}
	defer fixed.Release()
	var b bytes.Buffer
	if _, err := fixed.WriteTo(&b); err != nil {
		panic(err)
	}
	return b.Bytes()
}
