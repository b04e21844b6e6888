package workspace

import (
	"tollgate/engine"
	"tollgate/engine/wire"
)

// growing are the commands that make the state grow. What ends, claims, pays, replaces or answers
// something is not among them, nor is a sign-in: who frees something has to sign in.
// TestWhatGrowsIsKnown places every kind of the registry.
var growing = map[engine.Kind]bool{
	KindSignUp: true, KindSaveFlow: true, KindStartRun: true, KindRequestRun: true,
	KindStartLocalRun: true, KindSaveInspection: true, KindAddInspectionPart: true,
	KindRequestPurchase: true, KindOpenWorkspace: true, KindSetTestAccess: true,
	KindGrantCredits: true, KindSetAlerts: true, KindSendTestAlert: true,
}

// Grows reports whether a record makes the state grow, also where Act carries it.
func Grows(r engine.Record) bool {
	if inner, carried := unwrap(r); carried {
		r = inner
	}
	if r.Kind == KindScheduleFlow {
		var c ScheduleFlow
		return wire.Decode(r.Payload, &c) == nil && (c.Save || c.EveryHours != 0)
	}
	return growing[r.Kind]
}

// unwrap returns the record that an Act carries; false where it is another, or no replica will take
// it.
func unwrap(r engine.Record) (inner engine.Record, carried bool) {
	if r.Kind != KindAct {
		return inner, false
	}
	var c Act
	err := wire.Decode(r.Payload, &c)
	return engine.Record{Kind: c.Kind, Payload: c.Payload}, err == nil
}
