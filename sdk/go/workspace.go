package tollgate

// Started is the answer to a request that starts a run or buys runs: the run, or the purchase.
// Where it is to be paid first, with 402 payment_required, NextAction says what to do: approve,
// purchase or wait.
type Started struct {
	Run      Run      `json:"run,omitzero"`
	Purchase Purchase `json:"purchase,omitzero"`

	NextAction string `json:"next_action,omitzero"`
	// ApprovalURL is where the owner approves; empty where an earlier link still works.
	ApprovalURL string `json:"approval_url,omitzero"`
	PollURL     string `json:"poll_url,omitzero"`
	// Reason says why the owner is needed.
	Reason string `json:"reason,omitzero"`
}
