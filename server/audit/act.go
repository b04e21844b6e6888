package audit

import "tollgate/engine/billing"

// Act is what an operator did for the owner of a workspace. Its group of the log keeps it.
type Act struct {
	// Change has the number among the acts; it names no account.
	Change billing.ChangeView
	// Workspace is the id of the workspace.
	Workspace string
}
