package workspace

import (
	"tollgate/engine"
	"tollgate/engine/machine"
)

// MaxCredits bounds one grant, and all grants of a workspace together.
const MaxCredits = 1 << 40

// GrantCredits gives credits to a workspace: for an operator. The same ID again is the same
// success again when it is among the newest 1,000 transactions.
type GrantCredits struct {
	Workspace uint32   `wire:"1"`
	ID        [16]byte `wire:"2"`
	Amount    uint64   `wire:"3"`
	Note      string   `wire:"4"` // ≤ 200 characters
}

func (c *GrantCredits) apply(x *money, t *machine.Turn, row uint32) engine.Outcome {
	w := *x.workspaces.Read(row)
	if c.Amount == 0 || c.Amount > MaxCredits || w.Ledger.CreditsGranted > MaxCredits-c.Amount {
		return engine.OutcomeCreditsInvalid
	}
	seen := 0
	for row := w.Transactions; row != 0 && seen < 1000; row = x.transactions.Read(row).Before {
		if x.transactions.Read(row).ID == c.ID {
			return engine.OutcomeDone
		}
		seen++
	}

	w.Ledger.CreditsGranted += c.Amount
	w.Ledger.CreditsLeft += c.Amount
	x.noteTransaction(t, &w, TransactionView{
		ID: c.ID, Kind: transactionGrant, Amount: c.Amount, Note: c.Note,
	})
	*x.workspaces.Write(c.Workspace) = w
	return engine.OutcomeDone
}
