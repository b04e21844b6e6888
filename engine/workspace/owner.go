package workspace

// Owns says that a workspace is a person's.
func (m *Machine) Owns(workspace, person uint32) bool {
	s := m.state.Load()
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.ownedBy(workspace, person)
}
