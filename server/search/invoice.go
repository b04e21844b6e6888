package search

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"tollgate/engine/billing"
)

// From a mark it is at most so many invoices, or rows, to the next one.
const (
	invoicesApart = 64
	rowsApart     = 4096
)

// numbers lead from the number of an environment's invoice to its row: by marks, from which it is
// not far.
type numbers struct {
	marks []billing.InvoiceNumber
	// through is the last row that was looked at.
	through uint32
}

// findInvoice finds the invoice of a number: 12, #12 or invoice 12.
func (s *Searcher) findInvoice(q *Query, deadline time.Time, found *Found) {
	text := strings.TrimPrefix(strings.TrimSpace(strings.TrimPrefix(fold(q.Text), "invoice")), "#")
	number, err := strconv.ParseUint(text, 10, 64)
	if err != nil || number == 0 {
		return
	}
	v := s.index.view(q.Env, deadline)
	if v == nil {
		found.Complete = false
		return
	}
	defer func() { <-v.turn }()
	m := s.config.Machine
	complete := v.invoices.catchUp(m, q.Env, deadline)
	for row, more := v.invoices.before(number), true; more && row < v.invoices.through; {
		var list []billing.InvoiceNumber
		list, row, more = m.InvoiceNumbers(q.Env, row, rowsApart)
		for _, n := range list {
			if n.Number < number {
				continue
			}
			if view, ok := m.InvoiceAt(q.Env, n.Row); ok && view.Number == number {
				found.add(invoiceResult(&view))
			}
			return
		}
	}
	found.Complete = found.Complete && complete
}

// before is a row that the number's is behind, and not far.
func (n *numbers) before(number uint64) uint32 {
	below := func(m billing.InvoiceNumber, number uint64) int {
		if m.Number < number {
			return -1
		}
		return 1
	}
	at, _ := slices.BinarySearchFunc(n.marks, number, below)
	if at == 0 {
		return 0
	}
	return n.marks[at-1].Row
}

// catchUp adds marks for the invoices that were stored since. False: there was no time for all.
func (n *numbers) catchUp(m *billing.Machine, env uint32, deadline time.Time) bool {
	for more := true; more; {
		var list []billing.InvoiceNumber
		list, n.through, more = m.InvoiceNumbers(env, n.through, rowsAtOnce)
		for _, v := range list {
			last := billing.InvoiceNumber{}
			if len(n.marks) > 0 {
				last = n.marks[len(n.marks)-1]
			}
			if apart := v.Row - last.Row; last.Row == 0 || apart >= rowsApart ||
				v.Number-last.Number >= invoicesApart {
				n.marks = append(n.marks, v)
			}
		}
		if more && time.Now().After(deadline) {
			return false
		}
	}
	return true
}
