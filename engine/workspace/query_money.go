package workspace

import "slices"

// PurchaseView is an order of runs.
//
//schema:answer workspace Purchase
type PurchaseView struct {
	ID          [16]byte `json:"id" id:"markPurchase"`
	Workspace   uint32
	WorkspaceID [16]byte
	Status      PurchaseStatus `json:"status"`
	Runs        uint32         `json:"runs"`
	Cents       uint32         `json:"cents"`
	Flow        [16]byte       `json:"flowId" rule:"null" id:"markFlow"` // zero is none
	// FlowShown reports whether the flow is as it was when its start asked: approving confirms its
	// signup.
	FlowShown bool
	Reason    ApprovalReason `json:"reason" rule:"null" as:"text"`
	// ApprovalURL is always null: a link is shown once. The server fills in PollURL.
	ApprovalURL string `json:"approval_url" rule:"null,min=1"`
	PollURL     string `json:"poll_url" rule:"min=1"`
	CreatedAt   int64  `json:"createdAt" as:"time"`
	ChangedAt   int64  `json:"updatedAt" as:"time"`
	ExpiresAt   int64  `json:"expiresAt" rule:"null" as:"time"` // 0 when it has ended
	// Checkout is the provider's id of the payment page, URL its address.
	Checkout, URL string
	Refund        bool
	// Payment is the provider's id of what was paid. Returns are the payments that are to be sent
	// back, or were, its own first.
	Payment  string
	Returns  []Return
	PageOpen bool
	// Number counts purchases from 1. Card is the card that its workspace has saved.
	Number uint32
	Card   string
}

func (x *money) purchaseView(row uint32) PurchaseView {
	p := x.purchases.Read(row)
	v := PurchaseView{
		ID: p.ID, Workspace: p.Workspace, WorkspaceID: x.workspaces.Read(p.Workspace).ID,
		Runs: p.Runs, Cents: p.Cents, Status: p.Status,
		Reason: p.Reason, Checkout: p.Checkout, URL: p.URL, CreatedAt: p.CreatedAt,
		ChangedAt: p.ChangedAt, ExpiresAt: p.Due, Refund: p.Refund, Payment: p.Payment,
		Returns: p.returns(), PageOpen: p.PageOpen, Number: row,
		Card: x.workspaces.Read(p.Workspace).Ledger.Card,
	}
	if p.Flow != 0 {
		f := x.flows.Read(p.Flow)
		v.Flow, v.FlowShown = f.ID, p.shown(p.Flow, f)
	}
	return v
}

// Purchase finds a purchase; workspace 0 finds it in any.
func (m *Machine) Purchase(workspace uint32, id [16]byte) (PurchaseView, bool) {
	s := m.state.Load()
	s.mu.RLock()
	defer s.mu.RUnlock()
	row := s.purchaseOf(id)
	if row == 0 || workspace != 0 && s.purchases.Read(row).Workspace != workspace {
		return PurchaseView{}, false
	}
	return s.purchaseView(row), true
}

// PurchaseByLink finds the purchase that an approval link's SHA-256 belongs to.
func (m *Machine) PurchaseByLink(link [32]byte) (PurchaseView, bool) {
	s := m.state.Load()
	s.mu.RLock()
	defer s.mu.RUnlock()
	row := s.linkBy.Find(secretHash(&link), func(row uint32) bool {
		return s.purchases.Read(row).Link == link
	})
	if row == 0 {
		return PurchaseView{}, false
	}
	return s.purchaseView(row), true
}

// Purchases lists a workspace's purchases; more reports whether there are others behind them.
func (m *Machine) Purchases(workspace uint32, p Page) (views []PurchaseView, more bool) {
	s := m.state.Load()
	s.mu.RLock()
	defer s.mu.RUnlock()
	w, _ := s.workspace(workspace)
	return list(&p, chain[PurchaseView]{
		newest: w.Purchases,
		before: func(row uint32) uint32 { return s.purchases.Read(row).Before },
		find:   func(id [16]byte) uint32 { return s.purchaseRow(workspace, id) },
		view:   s.purchaseView,
	})
}

// Errands are purchases with an errand, oldest first, behind the one of number after; 0 begins. At
// most most are answered.
func (m *Machine) Errands(kind Errand, after uint32, most int) (views []PurchaseView) {
	s := m.state.Load()
	s.mu.RLock()
	defer s.mu.RUnlock()
	rows := s.errands[kind]
	at, _ := slices.BinarySearch(rows, after+1)
	for _, row := range rows[at:] {
		if len(views) == most {
			break
		}
		views = append(views, s.purchaseView(row))
	}
	return views
}
