package enginetest

import (
	"fmt"

	"tollgate/engine/billing"
)

// provider sets the sandbox's payment provider: provider none|sandbox.
func (s *scenario) provider(l *line) string {
	return s.do(billing.KindSetPaymentProvider, &billing.SetPaymentProvider{
		Env: s.environment(l), Provider: l.word(0), Actor: "admin",
	})
}

// checkout opens a checkout of an invoice by its number: checkout CUSTOMER NUMBER.
func (s *scenario) checkout(_ *line, env uint32, id [16]byte) string {
	return s.do(billing.KindOpenCheckout, &billing.OpenCheckout{
		Env: env, ID: ID(fmt.Sprint("checkout ", s.mint())), InvoiceID: id,
	})
}
