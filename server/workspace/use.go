package workspace

import (
	"tollgate/engine"
	state "tollgate/engine/workspace"
)

// noteUse keeps a workspace that nobody has claimed from counting as unused. It is one entry in an
// hour, and the request does not wait for it; where that fails a later one does it.
func (b *base) noteUse(p *state.Principal) {
	if p.NoteFrom == 0 || b.now() < p.NoteFrom {
		return
	}
	workspace, id := p.Workspace, p.ID
	b.used.Begin(workspace, func() {
		flow := FlowOf(workspace, 0)
		r := b.propose(flow, state.KindNoteUse, &state.NoteUse{Workspace: workspace})
		if r.Outcome != engine.OutcomeDone {
			b.log.Debug("the use of a workspace is not noted",
				"workspace", idText(markWorkspace, id), "outcome", r.Outcome)
		}
	})
}

// noteSession keeps a session, and the workspace that it works in, from counting as unused.
func (b *base) noteSession(v *state.SessionView, hash [32]byte) {
	if b.now() >= v.NoteFrom {
		flow := FlowOf(v.Principal.Workspace, v.Person)
		b.sessions.Begin(hash, func() {
			r := b.propose(flow, state.KindNoteSession, &state.NoteSession{Session: hash})
			if r.Outcome != engine.OutcomeDone {
				b.log.Debug("the use of a session is not noted", "outcome", r.Outcome)
			}
		})
	}
	b.noteUse(&v.Principal)
}
