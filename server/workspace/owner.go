package workspace

import (
	state "tollgate/engine/workspace"
)

// Noun is what an id is of.
type Noun string

// The nouns of ids.
const (
	NounWorkspace    Noun = markWorkspace
	NounFlow         Noun = markFlow
	NounRun          Noun = markRun
	NounPurchase     Noun = markPurchase
	NounIssue        Noun = markIssue
	NounNotification Noun = markNotification
	NounAct          Noun = markAct
	NounKey          Noun = "key_"
)

// Text is an id as callers see it.
func (n Noun) Text(id [16]byte) string { return idText(string(n), id) }

// Parse reads what Text wrote, and nothing else.
func (n Noun) Parse(text string) (id [16]byte, ok bool) { return parseID(string(n), text) }

// Document is the document of a run of a workspace that is completed, as JSON, with what it was
// compared with; false where there is none.
func (a *API) Document(workspace uint32, run [16]byte) (v state.InspectionView, document []byte,
	ok bool,
) {
	if v, ok = a.machine.Inspection(workspace, run); !ok {
		return v, nil, false
	}
	k, err := unpack(v.Document)
	if err != nil {
		a.config.Log.Error("a kept document cannot be read", "run", idText(markRun, run), "error", err)
	}
	return v, k.document, err == nil
}
