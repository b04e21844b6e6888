package workspace

import "tollgate/engine/wire"

// place is where a part of a run lies: in the archive, or, with the highest bit, the number of a
// part that may still change; 0 is nowhere.
type place uint32

const changing place = 1 << 31

func (p place) changes() bool { return p&changing != 0 }

func (p place) part() uint32 { return uint32(p &^ changing) }

// RunText is what a run has to say.
type RunText struct {
	Code      string `wire:"1" json:"reasonCode" rule:"null,min=1"`
	Reason    string `wire:"2" json:"reason" rule:"null,min=1"`
	Step      string `wire:"3" json:"step" rule:"null,min=1"`
	Calls     []Call `wire:"5" json:"verification.calls"`
	DecidedAt int64  `wire:"9" json:"verification.decided" rule:"null" as:"time"`
	// Proof is run or standing, of a run that passed.
	Proof    string     `wire:"4" json:"verification.proof" rule:"null,min=1"`
	Question string     `wire:"7" json:"human.question" in:"whole" if:"Waits()"`
	Events   []RunEvent `wire:"6" json:"events"`
	Worker   string     `wire:"8"`
	// Checkpoint is what an agent goes on from; it holds no credential and goes when the run ends.
	Checkpoint []byte `wire:"10"`
	// Answer is a person's, sealed, until a worker goes on with the run.
	Answer []byte `wire:"11"`
	// Of a run that has waited for a person: WallLeft is what is left of the time that a run may
	// have workers, in milliseconds, Steps and Tokens are what its agent has used so far.
	WallLeft int64  `wire:"12"`
	Steps    uint32 `wire:"13"`
	Tokens   uint32 `wire:"14"`
}

// Call is one call of a verification.
//
//schema:answer workspaceapi Call
type Call struct {
	// Case is none, wrong, real, or plain.
	Case    string `wire:"1" json:"case" rule:"min=1"`
	Status  uint32 `wire:"2" json:"status" rule:"null"`
	Refused bool   `wire:"3" json:"refused"`
	Matched bool   `wire:"4" json:"matched"`
	// Note says what else was seen: a caching header, a redirect, no answer.
	Note string `wire:"5" json:"note,omitzero" rule:"min=1"`
}

// RunEvent is one thing that an agent said it did.
//
//schema:answer workspaceapi RunEvent
type RunEvent struct {
	At   int64  `wire:"1" json:"at" as:"time"`
	Text string `wire:"2" json:"text"`
}

// What a run's texts hold at most; longer ones are cut by the server before they are proposed.
const (
	MaxRunEvents     = 50
	MaxEventBytes    = 300
	MaxReasonBytes   = 600
	MaxCheckpoint    = 8 << 10
	MaxAnswer        = 4 << 10 // sealed
	MaxQuestionBytes = 1200
	MaxCalls         = 8
)

// decodeBlob reads what this machine has encoded itself, or checked at restore.
func decodeBlob(b []byte, v wire.Fielder) {
	if err := wire.Decode(b, v); err != nil {
		panic("workspace: a blob of the state does not decode: " + err.Error())
	}
}
