package billing

// Agree makes a version the one that the log has agreed on, whether this build knows it or not.
func Agree(m *Machine, version uint32) { m.state.Load().version.Store(version) }
