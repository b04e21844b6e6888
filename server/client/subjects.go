package client

import (
	"log/slog"
	"time"

	"tollgate/engine/billing"
	"tollgate/server"
	"tollgate/server/payments"
)

// base is what the handlers of all subjects use: reads, commands, deadlines, the audit recorder.
type base struct {
	machine  *billing.Machine
	proposer server.Proposer
	reader   server.Reader
	audits   *recorder
	now      func() time.Time
	log      *slog.Logger

	writeTimeout, readTimeout time.Duration
}

// customers are the rows about customers, what they may use, and their clocks.
type customers struct{ *base }

// subscriptions are the rows about plans and subscriptions.
type subscriptions struct{ *base }

// invoices are the rows about invoices and how they are paid.
type invoices struct {
	*base
	payments *payments.Service // nil where no provider is enabled
}
