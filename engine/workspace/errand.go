package workspace

import "slices"

// Errand is what a payment provider is to be asked about a purchase. It follows from the purchase
// alone, so that whichever node leads knows what is left to do.
type Errand uint8

// The errands. A purchase has one at a time at most.
const (
	ErrandNone Errand = 0
	// ErrandCharge: the saved card is to be charged.
	ErrandCharge Errand = 1
	// ErrandPage: the owner approved it, and there is no payment page yet.
	ErrandPage Errand = 2
	// ErrandPoll: the payment page waits for its payer, and its webhook may be lost.
	ErrandPoll Errand = 3
	// ErrandClose: it has ended unpaid, and its payment page may still be open.
	ErrandClose Errand = 4
	// ErrandRefund: it was paid after it had ended, or once more than once, and the money was not
	// sent back yet; nor was that refused.
	ErrandRefund Errand = 5
	// ErrandEnd: its payment page is closed unpaid, so that nobody can pay it any more: it is to be
	// cancelled, so that its workspace is free for another. No provider is asked.
	ErrandEnd Errand = 6

	errandKinds = 7
)

// errand is what is left to do about a purchase.
func (p *purchase) errand() Errand {
	switch {
	case p.owes():
		return ErrandRefund
	case p.Status == PurchaseProcessing:
		return ErrandCharge
	case p.Status == PurchaseCheckout && p.Checkout == "":
		return ErrandPage
	case p.Status == PurchaseCheckout && p.PageOpen:
		return ErrandPoll
	case p.Status == PurchaseCheckout:
		return ErrandEnd
	case p.PageOpen && p.Status > PurchaseSucceeded:
		return ErrandClose
	}
	return ErrandNone
}

// errands are the purchases of each errand, lower rows first. They are not state: they follow from
// the table of purchases.
type errands [errandKinds][]uint32

// move brings a purchase from one errand to another. Rows are mostly added at the end, and a row
// more or less moves four bytes for each behind it.
func (e *errands) move(row uint32, from, to Errand) {
	if from == to {
		return
	}
	if at, found := slices.BinarySearch(e[from], row); from != ErrandNone && found {
		e[from] = slices.Delete(e[from], at, at+1)
	}
	if to != ErrandNone {
		at, _ := slices.BinarySearch(e[to], row)
		e[to] = slices.Insert(e[to], at, row)
	}
}

// purchaseWrite changes a purchase, and what is left to do about it.
func (x *money) purchaseWrite(row uint32, change func(p *purchase)) *purchase {
	p := x.purchases.Write(row)
	before := p.errand()
	change(p)
	x.errands.move(row, before, p.errand())
	return p
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
