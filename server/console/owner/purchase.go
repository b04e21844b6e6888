package owner

import (
	"cmp"

	"tollgate/engine/workspace"
	"tollgate/server/console/page"
	"tollgate/server/workspaceapi"
)

var purchases = records[workspace.PurchaseView]{
	noun: workspaceapi.NounPurchase, path: "/purchases", name: "purchase",
	read: (*workspace.Machine).Purchases,
	id:   func(p *workspace.PurchaseView) [16]byte { return p.ID },
	choices: []choice{
		{"All", ""}, {"Open", "open"}, {"Paid", "paid"}, {"Ended without payment", "ended"},
	},
	chosen: func(p *workspace.PurchaseView) string {
		switch {
		case p.Status < workspace.PurchaseSucceeded:
			return "open"
		case p.Status == workspace.PurchaseSucceeded:
			return "paid"
		}
		return "ended"
	},
	columns: []string{"asked for", "id", "runs", "cents", "status", "reason", "changed", "expires"},
	add: func(s *page.Sheet, p *workspace.PurchaseView) {
		s.Add(when(p.CreatedAt), workspaceapi.NounPurchase.Text(p.ID), p.Runs, p.Cents, p.Status.String(),
			p.Reason.String(), when(p.ChangedAt), when(p.ExpiresAt))
	},
}

type purchasesPage struct {
	list[workspace.PurchaseView]
	Billing billing
	// RunCents is the price of a run.
	RunCents uint32
}

// MaxRuns is how many runs one purchase buys.
func (purchasesPage) MaxRuns() int { return workspace.MaxPurchaseRuns }

func showPurchases(v *visit) {
	v.show(page.View{
		Page: "purchases", Title: "Purchases", Data: purchasesPage{
			purchases.list(v), v.billing(), v.config.Machine.Policy().RunCents,
		},
		Lead: "Hosted runs that were bought, and what may be spent.",
	})
}

type purchasePage struct {
	workspace.PurchaseView
	FlowName    string
	Live        string
	CapApproved bool
	CapCents    uint32
}

// Says describes its status in words, and the next step.
func (p *purchasePage) Says() string {
	switch p.Status {
	case workspace.PurchaseApproval:
		return "The purchase waits for your word. " + reasonWords(p.Reason.String())
	case workspace.PurchaseCheckout:
		if p.URL == "" {
			return "You approved the purchase. The payment page is being created, and is shown " +
				"here in a moment."
		}
		return "You approved the purchase. It is paid on the payment provider's page, which saves " +
			"the card: later purchases within your cap are charged to it without asking you. " +
			"Nothing is charged yet."
	case workspace.PurchaseProcessing:
		return "The saved card is being charged. Nothing needs to be done."
	case workspace.PurchaseSucceeded:
		return "The purchase is paid, and the runs are there."
	case workspace.PurchaseFailed:
		return "The payment provider refused it. Nothing was charged; the next start asks again."
	case workspace.PurchaseCancelled:
		return "The purchase was cancelled before it was paid. Nothing was charged."
	case workspace.PurchaseDenied:
		return "You denied the purchase. Nothing was charged."
	}
	return "The purchase was not approved or paid in time. Nothing was charged; the next start " +
		"asks again."
}

// Final reports whether its status is final.
func (p *purchasePage) Final() bool {
	return p.Status >= workspace.PurchaseSucceeded || p.Status == workspace.PurchaseApproval
}

func (v *visit) purchase() (data *purchasePage, ok bool) {
	found, ok := purchases.record(v, v.config.Machine.Purchase)
	if !ok {
		return nil, false
	}
	data = &purchasePage{
		PurchaseView: found,
		Live:         Root + "/purchases/" + workspaceapi.NounPurchase.Text(found.ID) + "/live",
		CapApproved:  v.account.CapApproved, CapCents: v.account.CapCents,
	}
	if flow, known := v.config.Machine.Flow(v.who.Workspace, found.Flow); known {
		data.FlowName = flow.Name
	}
	return data, true
}

func showPurchase(v *visit) {
	data, ok := v.purchase()
	if !ok {
		return
	}
	v.show(page.View{
		Page: "purchase", Title: "Purchase of hosted runs", Data: data,
		Crumbs: []page.Link{
			{Text: "Purchases", URL: Root + "/purchases"},
			{Text: workspaceapi.NounPurchase.Text(data.ID)},
		},
	})
}

// showPayment is how far its payment is, for the script.
func showPayment(v *visit) {
	if data, ok := v.purchase(); ok {
		v.site.Fragment(v.x, "purchase", "payment", data)
	}
}

var keys = records[workspace.KeyView]{
	noun: workspaceapi.NounKey, path: "/keys", name: "key", read: (*workspace.Machine).Keys,
	id:      func(k *workspace.KeyView) [16]byte { return k.ID },
	columns: []string{"created", "id", "scope", "last used", "revoked"},
	add: func(s *page.Sheet, k *workspace.KeyView) {
		s.Add(when(k.CreatedAt), workspaceapi.NounKey.Text(k.ID), k.Scopes.String(), when(k.UsedAt),
			when(k.RevokedAt))
	},
}

var showKeys = keys.page("keys", "API keys",
	"Agents call the workspace API with these keys. A key is shown once, when it is created.")

var acts = records[workspace.ActView]{
	noun: workspaceapi.NounAct, path: "/history", name: "decision", read: (*workspace.Machine).Acts,
	id:      func(a *workspace.ActView) [16]byte { return a.ID },
	columns: []string{"at", "id", "who", "what", "note", "field", "before", "after"},
	add:     addAct,
}

// addAct adds a row for each value that was changed.
func addAct(s *page.Sheet, a *workspace.ActView) {
	row := []any{
		when(a.At), workspaceapi.NounAct.Text(a.ID), cmp.Or(a.Email, a.Actor), a.Action, a.Note,
	}
	for _, c := range a.Changes {
		s.Add(append(row[:len(row):len(row)], c.Name, c.Before, c.After)...)
	}
	if len(a.Changes) == 0 {
		s.Add(append(row, "", "", "")...)
	}
}

var showHistory = acts.page("history", "History",
	"Decisions that people took about this workspace: its owner, or an operator for them.")

// Waits reports whether its owner may still approve, deny or cancel it.
func (p *purchasePage) Waits() bool {
	return p.Status == workspace.PurchaseApproval || p.Status == workspace.PurchaseCheckout
}
