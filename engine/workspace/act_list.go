package workspace

// OperatorAct is an act of an operator, among those for all workspaces.
type OperatorAct struct {
	ActView
	// Number counts all acts of the group, from 1, in log order; those of owners are left out.
	Number uint32
	// Workspace is whose it was for.
	Workspace [16]byte
}

// OperatorActs lists what operators did for all workspaces, newest first, with numbers below before
// (0: all): at most limit of them, and it looks at no more than scan acts. next is what to ask for
// the next page with; 0 when there is none.
func (m *Machine) OperatorActs(before uint32, limit, scan int) (list []OperatorAct, next uint32) {
	s := m.state.Load()
	s.mu.RLock()
	defer s.mu.RUnlock()
	row := s.actRows.Len() + 1
	if before != 0 {
		row = min(row, before)
	}
	for ; row > 1 && scan > 0 && len(list) < limit; scan-- {
		row--
		if a := s.actRows.Read(row); a.Person == 0 {
			list = append(list, OperatorAct{
				ActView: s.actView(row), Number: row, Workspace: s.workspaces.Read(a.Workspace).ID,
			})
		}
	}
	if row > 1 {
		next = row
	}
	return list, next
}

func (x *state) actView(row uint32) ActView {
	a := x.actRows.Read(row)
	by, _ := x.person(a.Person)
	return ActView{
		ID: a.ID, At: a.At, Actor: a.Actor, Action: registry[a.Kind].act.called(), Subject: a.Subject,
		Note: a.Note, Changes: append([]ActChange(nil), a.Changes...), Person: by.ID,
		Email: by.Email,
	}
}
