package workspace

import (
	"sync"

	"tollgate/engine"
	state "tollgate/engine/workspace"
)

// mostUses bounds the uses that are being noted at one time; what comes beyond is noted by a later
// request.
const mostUses = 64

// uses are the workspaces, by row, whose use is being noted.
type uses struct {
	mu    sync.Mutex
	noted map[uint32]bool
}

// begin says that a workspace's use may be noted now: by nobody else at the same time.
func (u *uses) begin(workspace uint32) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.noted[workspace] || len(u.noted) >= mostUses {
		return false
	}
	if u.noted == nil {
		u.noted = map[uint32]bool{}
	}
	u.noted[workspace] = true
	return true
}

func (u *uses) end(workspace uint32) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.noted, workspace)
}

// noteUse keeps a workspace that nobody has claimed from counting as unused. It is one entry in an
// hour, and the request does not wait for it; where that fails a later one does it. It ends by
// itself, within the time that a command has.
func (a *API) noteUse(p *state.Principal) {
	if p.NoteFrom == 0 || a.now() < p.NoteFrom || !a.used.begin(p.Workspace) {
		return
	}
	workspace, id := p.Workspace, p.ID
	go func() {
		defer a.used.end(workspace)
		r := a.propose(state.KindNoteUse, &state.NoteUse{Workspace: workspace})
		if r.Outcome != engine.OutcomeDone {
			a.config.Log.Debug("the use of a workspace is not noted",
				"workspace", idText(markWorkspace, id), "outcome", r.Outcome)
		}
	}()
}
