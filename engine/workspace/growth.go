package workspace

import "tollgate/engine"

// growing are the commands that make the state grow. What ends, claims, pays or answers something
// is not among them.
var growing = map[engine.Kind]bool{
	KindSignUp: true, KindSaveFlow: true, KindStartRun: true, KindRequestRun: true,
	KindStartLocalRun: true, KindSaveInspection: true, KindAddInspectionPart: true,
	KindRequestPurchase: true, KindOpenWorkspace: true, KindSetTestAccess: true,
}

// Grows says whether a record makes the state grow.
func Grows(r engine.Record) bool { return growing[r.Kind] }
