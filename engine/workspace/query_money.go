package workspace

// PurchaseView is an order of runs.
//
//schema:answer workspaceapi Purchase
type PurchaseView struct {
	purchaseFacts
	WorkspaceID [16]byte
	Flow        [16]byte `json:"flowId" in:"after=cents" rule:"null" id:"markFlow"` // zero is none
	// FlowShown reports whether the flow is as it was when its start asked: approving confirms its
	// signup.
	FlowShown bool
	// ApprovalURL is always null: a link is shown once. The server fills in PollURL.
	ApprovalURL string `json:"approval_url" in:"after=reason" rule:"null,min=1"`
	PollURL     string `json:"poll_url" in:"after=approval_url" rule:"min=1"`
	// Returns are the payments that are to be sent back, or were, its own first.
	Returns []Return
	// Number counts purchases from 1. Card is the card that its workspace has saved.
	Number uint32
	Card   string
}

func (x *money) purchaseView(row uint32) PurchaseView {
	p := x.purchases.Read(row)
	w := x.workspaces.Read(p.Workspace)
	v := PurchaseView{
		purchaseFacts: p.purchaseFacts, WorkspaceID: w.ID, Returns: p.returns(), Number: row,
		Card: w.Ledger.Card,
	}
	if p.Flow != 0 {
		f := x.flows.Read(p.Flow)
		v.Flow, v.FlowShown = f.ID, p.shown(p.Flow, f)
	}
	return v
}

// Purchase finds a purchase; workspace 0 finds it in any.
func (m *Machine) Purchase(workspace uint32, id [16]byte) (PurchaseView, bool) {
	s := m.read()
	defer s.mu.RUnlock()
	if workspace != 0 {
		return shown(s.purchases.of(workspace, id), s.purchaseView)
	}
	return shown(s.purchases.find(id), s.purchaseView)
}

// PurchaseByLink finds the purchase that an approval link's SHA-256 belongs to.
func (m *Machine) PurchaseByLink(link [32]byte) (PurchaseView, bool) {
	s := m.read()
	defer s.mu.RUnlock()
	return shown(s.linkBy.Find(secretHash(&link), func(row uint32) bool {
		return s.purchases.Read(row).Link == link
	}), s.purchaseView)
}

// Purchases lists a workspace's purchases; more reports whether there are others behind them.
func (m *Machine) Purchases(workspace uint32, p Page) (views []PurchaseView, more bool) {
	s := m.read()
	defer s.mu.RUnlock()
	w, _ := s.workspace(workspace)
	return list(&p, chainOf(&s.purchases, workspace, w.Purchases, s.purchaseView))
}

// PurchaseAsks says why an owner's purchase of so many cents would have to be approved at an
// instant of log time; ReasonNone where the saved card would pay it at once. While the purchase
// open waits or is being charged, if there is one, another one buys nothing.
func (m *Machine) PurchaseAsks(workspace, cents uint32, now int64) (
	why ApprovalReason, open [16]byte,
) {
	s := m.read()
	defer s.mu.RUnlock()
	w, ok := s.workspace(workspace)
	if !ok {
		return ReasonNoCard, open
	}
	if w.Ledger.Open != 0 {
		open = s.purchases.Read(w.Ledger.Open).ID
	}
	w.Ledger.roll(max(now, s.log.Stamp()))
	return w.chargeable(cents, false), open
}

// PaymentTasks returns at most limit purchases that have the task, oldest first, after purchase
// number after; 0 starts at the first.
func (m *Machine) PaymentTasks(kind PaymentTask, after uint32, limit int) (views []PurchaseView) {
	s := m.read()
	defer s.mu.RUnlock()
	for _, row := range s.paymentTasks[kind].behind(after) {
		if len(views) == limit {
			break
		}
		views = append(views, s.purchaseView(row))
	}
	return views
}
