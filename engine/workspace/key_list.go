package workspace

// KeyView is an API key in its workspace's list; nothing gives the key itself away.
type KeyView struct {
	ID                   [16]byte
	Scopes               Scopes
	CreatedAt, RevokedAt int64 // RevokedAt is 0 of one that works
}

// Keys lists a workspace's keys, revoked ones too, newest first; more reports whether there are
// others behind.
func (m *Machine) Keys(workspace uint32, p Page) (views []KeyView, more bool) {
	s := m.state.Load()
	s.mu.RLock()
	defer s.mu.RUnlock()
	w, _ := s.workspace(workspace)
	return list(&p, chain[KeyView]{
		newest: w.Keys,
		before: func(row uint32) uint32 { return s.keys.Read(row).Before },
		find: func(id [16]byte) uint32 {
			row := w.Keys
			for row != 0 && s.keys.Read(row).ID != id {
				row = s.keys.Read(row).Before
			}
			return row
		},
		view: func(row uint32) KeyView {
			k := s.keys.Read(row)
			return KeyView{k.ID, k.Scopes, k.CreatedAt, k.RevokedAt}
		},
	})
}
