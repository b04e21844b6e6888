package workspaceapi

import (
	"context"
	"strings"
	"time"

	"tollgate/engine/workspace"
	"tollgate/server/provider/verify"
)

// preflightTime bounds the calls of one preflight, retries included.
const preflightTime = 25 * time.Second

// preflightPlaces are those of requests that wait for the products of flows, for calls that another
// request began included.
var preflightPlaces = slotLimits{all: 64, strangers: 32, one: 8}

// preflight calls the flow's verification and brings what it found into the state. When that fails
// the quote says what is known.
func (f *Flows) preflight(ws uint32, v *workspace.FlowView) {
	f.calling.one(v.ID, func() {
		// Another request's preflight may have ended since this one looked.
		now, known := f.machine.Flow(ws, v.ID)
		if !known || !now.PreflightAged(f.now()) {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), preflightTime)
		defer cancel()
		// No run has this id: {run_id} must not stand for nothing, which every page contains.
		found := f.verifier.Preflight(ctx, CheckOf(v, idText(markRun, mint())))
		c := &workspace.NotePreflight{
			Workspace: ws, ID: v.ID, Version: v.Version, NoKey: called(found.NoKey),
			WrongKey: called(found.WrongKey), AlreadyTrue: found.AlreadyTrue,
		}
		r := f.propose(FlowOf(ws, 0), workspace.KindNotePreflight, c)
		if outcomeDone(r) && !f.fresh() {
			f.log.Debug("a preflight is not seen yet", "flow", idText(markFlow, v.ID))
		}
	})
}

// CheckOf is what a flow says about its verification, for a run.
func CheckOf(v *workspace.FlowView, runID string) verify.Check {
	return verify.Check{
		URL: v.VerificationURL, Status: int(v.VerificationStatus), Contains: v.VerificationContains,
		Credential: v.Credential, RunID: runID, Port: portIn(v.URL),
	}
}

// ofItsRun reports whether only its own run can make a flow's verification true: it asks for the
// key that the agent obtained, or for the run's id.
func ofItsRun(v *workspace.FlowView) bool {
	return v.Credential != "" || strings.Contains(v.VerificationContains, verify.RunMark)
}

func called(answer verify.Answer) workspace.Called {
	switch answer {
	case verify.Refused:
		return workspace.CalledRefused
	case verify.Soft:
		return workspace.CalledUnclear
	case verify.Accepted:
		return workspace.CalledAccepted
	}
	return workspace.CalledUnknown
}

// unclearNote is what a quote says of calls that were answered neither 401 nor 403, nor as the flow
// wants it.
const unclearNote = "Without a key, or with a wrong one, the verification answers neither 401 " +
	"nor 403. A run can pass only if the key that the agent obtains is accepted there."

// noteFound keeps what the call after a run answered as the flow's newest preflight: what one run
// has made true, the next one finds. It is in the log before the run's end is, so that no start can
// come between; a worker that lost its run notes nothing.
func (h *held) noteFound(calls []workspace.Call) {
	flow := h.flow
	if ofItsRun(flow) || len(calls) != 1 || !h.config.Machine.Holds(h.ClaimedRun.Run, h.Token) {
		return
	}
	c := &workspace.NotePreflight{
		Workspace: h.run.Workspace, ID: flow.ID, Version: flow.Version, AlreadyTrue: calls[0].Matched,
	}
	switch {
	case calls[0].Matched:
		c.NoKey = workspace.CalledAccepted
	case calls[0].Refused:
		c.NoKey = workspace.CalledRefused
	default:
		return
	}
	if r := h.propose(workspace.KindNotePreflight, c); !outcomeDone(r) {
		h.config.Log.Info("what a verification answered is not noted for the next quote",
			"flow", idText(markFlow, flow.ID), "outcome", r.Outcome)
	}
}
