package billing

import (
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/outbox"
	"tollgate/engine/wire"
)

func goldenEndpoint() *outbox.WebhookEndpoint {
	return &outbox.WebhookEndpoint{
		ID: [16]byte{1, 2, 3}, CreatedAt: 1, ModifiedAt: 2, DisabledAt: 3, FailingSince: 4, SentAt: 5,
		Delivered: 6, Failed: 7, Skipped: 8, Born: 18, Env: 9, First: 10, Last: 11, FirstFinished: 12,
		LastFinished: 13, NextFree: 14, Pending: 15, Finished: 16, Events: 17, Off: outbox.WebhookOffGone,
	}
}

func goldenDelivery() *outbox.Delivery {
	return &outbox.Delivery{
		ID: [16]byte{1, 2, 3}, Sequence: 1, Turn: 2, CreatedAt: 3, QueuedAt: 4, NextAt: 5,
		FinishedAt: 6, Endpoint: 7, Customer: 8, Previous: 9, Next: 10, NextFinished: 11, Attempts: 12,
		Round: 13, Event: accounts.WebhookInvoicePaid, State: outbox.DeliveryFailed, Listed: true,
	}
}

// FillOutbox queues n messages about n customers for the first endpoint, without their causes.
func (m *Machine) FillOutbox(n int) {
	o := &m.state.Load().outbox
	for i := range n {
		o.Enqueue(1, &outbox.Delivery{Customer: 1 + uint32(i)}, nil)
	}
}

// ClaimPending lets the group's outbox look as if n messages more waited in it.
func (m *Machine) ClaimPending(n uint32) { m.state.Load().outbox.Pending += n }

// GoldenDeliveryText is the text of a delivery with every field set.
func GoldenDeliveryText(m outbox.WebhookMessage) []byte {
	return wire.Encode(nil, &outbox.DeliveryText{Message: m, Attempts: []outbox.Attempt{
		{At: 1, Outcome: outbox.AttemptBlocked, Status: 2, Reason: "why", TookMS: 3},
	}})
}

// GoldenEndpointText is the text of an endpoint with every field set.
func GoldenEndpointText() []byte {
	return wire.Encode(nil, &outbox.EndpointText{
		URL: "https://a.example", About: "about", Secret: []byte{1}, Previous: []byte{2},
		PreviousUntil: 3,
	})
}
