package workspace

// Owns reports whether a workspace is a person's.
func (m *Machine) Owns(workspace, person uint32) bool {
	s := m.state.Load()
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.ownedBy(workspace, person)
}

// ActedOn is the workspace that an act with this key was carried out on; 0 when none was, or it is
// too long ago.
func (m *Machine) ActedOn(key [16]byte) uint32 {
	s := m.state.Load()
	s.mu.RLock()
	defer s.mu.RUnlock()
	row := s.requests.Find(key, s.log.Stamp()-RequestRetentionMS)
	if row == 0 || s.requests.Table.Read(row).kind != madeAct {
		return 0
	}
	return s.actRows.Read(s.requests.Table.Read(row).made).Workspace
}
