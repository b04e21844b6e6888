package enginetest

import (
	"fmt"

	"tollgate/engine/billing"
)

// provider sets the sandbox's payment provider: provider none|sandbox.
func (s *scenario) provider(l *line) string {
	return s.outcome(s.log.Do(billing.KindSetPaymentProvider, &billing.SetPaymentProvider{
		Env: s.environment(l), Provider: l.word(0), Actor: "admin",
	}))
}

// checkout opens a checkout of an invoice by its number: checkout CUSTOMER NUMBER.
func (s *scenario) checkout(l *line) string {
	id, ok := s.numbered(l)
	if !ok {
		return "unknown"
	}
	return s.outcome(s.log.Do(billing.KindOpenCheckout, &billing.OpenCheckout{
		Env: s.environment(l), ID: ID(fmt.Sprint("checkout ", s.mint())), InvoiceID: id,
	}))
}
