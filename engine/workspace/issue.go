package workspace

import (
	"tollgate/engine"
	"tollgate/engine/machine"
)

// MarkIssueReady marks an open issue as fixed; the next run of the flow, as it is now, decides.
type MarkIssueReady struct {
	Workspace uint32   `wire:"1"`
	ID        [16]byte `wire:"2"`
	Note      string   `wire:"3"` // 1–2,000 characters
}

func (c *MarkIssueReady) apply(x *notices, t *machine.Turn) engine.Outcome {
	row := x.issues.of(c.Workspace, c.ID)
	if row == 0 {
		return engine.OutcomeRecordUnknown
	}
	if x.issues.Read(row).Status != IssueOpen {
		return engine.OutcomeIssueStatus
	}
	more := len(c.Note) - len(x.issues.Read(row).Note)
	if full := x.room(t, c.Workspace, more); full != engine.OutcomeDone {
		return full
	}
	x.rooms.hold(c.Workspace, more)
	i := x.issues.Write(row)
	i.Status, i.Note, i.ChangedAt = IssueFixReady, c.Note, t.Stamp
	i.ReadyVersion = x.flows.Read(i.Flow).Version
	t.Fold(uint64(row))
	return engine.OutcomeDone
}

// ReadNotification marks a notification read. Repeating it succeeds and changes nothing.
type ReadNotification struct {
	Workspace uint32   `wire:"1"`
	ID        [16]byte `wire:"2"`
}

func (c *ReadNotification) apply(x *notices, t *machine.Turn) engine.Outcome {
	row := x.notifications.of(c.Workspace, c.ID)
	if row == 0 {
		return engine.OutcomeRecordUnknown
	}
	if x.notifications.Read(row).ReadAt == 0 {
		x.notifications.Write(row).ReadAt = t.Stamp
		t.Fold(uint64(row))
	}
	return engine.OutcomeDone
}
