package owner

import (
	state "tollgate/engine/workspace"
	"tollgate/server/console/page"
	api "tollgate/server/workspace"
)

type purchasesPage struct {
	Billing   billing
	Purchases []state.PurchaseView
	Pager     pager
}

func showPurchases(v *visit) {
	bought, more := v.config.Machine.Purchases(v.who.Workspace, v.leaf(api.NounPurchase))
	data := purchasesPage{Billing: v.billing(), Purchases: bought}
	if len(bought) > 0 {
		data.Pager = v.pages(api.NounPurchase, more, bought[len(bought)-1].ID)
	}
	v.show(page.View{
		Page: "purchases", Title: "Purchases", Data: data,
		Lead: "Hosted runs that were bought, and what may be spent.",
	})
}

type purchasePage struct {
	state.PurchaseView
	FlowName    string
	Live        string
	CapApproved bool
	CapCents    uint32
}

// Says describes its status in words, and the next step.
func (p *purchasePage) Says() string {
	switch p.Status {
	case state.PurchaseApproval:
		return "It waits for your word. " + reasonWords(p.Reason.String())
	case state.PurchaseCheckout:
		if p.URL == "" {
			return "You approved it. The payment page is being made, and is shown here in a moment."
		}
		return "You approved it. It is paid on the payment provider's page, which saves the card: " +
			"later purchases within your cap are charged to it without asking you. " +
			"Nothing is charged yet."
	case state.PurchaseProcessing:
		return "The saved card is being charged. Nothing needs to be done."
	case state.PurchaseSucceeded:
		return "It is paid, and the runs are there."
	case state.PurchaseFailed:
		return "The payment provider refused it. Nothing was charged; the next start asks again."
	case state.PurchaseCancelled:
		return "It was cancelled before it was paid. Nothing was charged."
	case state.PurchaseDenied:
		return "You denied it. Nothing was charged."
	}
	return "It was not approved or paid in time. Nothing was charged; the next start asks again."
}

// Final reports whether its status is final.
func (p *purchasePage) Final() bool {
	return p.Status >= state.PurchaseSucceeded || p.Status == state.PurchaseApproval
}

func (v *visit) purchase() (data *purchasePage, ok bool) {
	id, ok := v.id(api.NounPurchase)
	if !ok {
		return nil, false
	}
	found, ok := v.config.Machine.Purchase(v.who.Workspace, id)
	if !ok {
		v.fail(faultUnknown)
		return nil, false
	}
	data = &purchasePage{
		PurchaseView: found, Live: Root + "/purchases/" + api.NounPurchase.Text(id) + "/live",
		CapApproved: v.account.CapApproved, CapCents: v.account.CapCents,
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
			{Text: "Purchases", URL: Root + "/purchases"}, {Text: api.NounPurchase.Text(data.ID)},
		},
	})
}

// showPayment is how far its payment is, for the script.
func showPayment(v *visit) {
	if data, ok := v.purchase(); ok {
		v.site.Fragment(v.x, "purchase", "payment", data)
	}
}

type keysPage struct {
	Keys  []state.KeyView
	Pager pager
}

func showKeys(v *visit) {
	keys, more := v.config.Machine.Keys(v.who.Workspace, v.leaf(api.NounKey))
	data := keysPage{Keys: keys}
	if len(keys) > 0 {
		data.Pager = v.pages(api.NounKey, more, keys[len(keys)-1].ID)
	}
	v.show(page.View{
		Page: "keys", Title: "API keys", Data: data,
		Lead: "Agents call the workspace API with these keys. A key is shown once, when it is made.",
	})
}

type historyPage struct {
	Acts  []state.ActView
	Pager pager
}

// showHistory lists the decisions for this workspace, and their authors.
func showHistory(v *visit) {
	acts, more := v.config.Machine.Acts(v.who.Workspace, v.leaf(api.NounAct))
	data := historyPage{Acts: acts}
	if len(acts) > 0 {
		data.Pager = v.pages(api.NounAct, more, acts[len(acts)-1].ID)
	}
	v.show(page.View{
		Page: "history", Title: "History", Data: data,
		Lead: "Decisions that people took about this workspace: its owner, or an operator for them.",
	})
}

// Waits reports whether its owner may still approve, deny or cancel it.
func (p *purchasePage) Waits() bool {
	return p.Status == state.PurchaseApproval || p.Status == state.PurchaseCheckout
}
