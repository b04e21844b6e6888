package billing

import "tollgate/engine/wire"

func goldenEndpoint() *webhookEndpoint {
	return &webhookEndpoint{
		id: [16]byte{1, 2, 3}, createdAt: 1, modifiedAt: 2, disabledAt: 3, failingSince: 4, sentAt: 5,
		delivered: 6, failed: 7, skipped: 8, born: 18, env: 9, first: 10, last: 11, firstFinished: 12,
		lastFinished: 13, nextFree: 14, pending: 15, finished: 16, events: 17, off: WebhookOffGone,
	}
}

func goldenDelivery() *delivery {
	return &delivery{
		id: [16]byte{1, 2, 3}, sequence: 1, turn: 2, createdAt: 3, queuedAt: 4, nextAt: 5,
		finishedAt: 6, endpoint: 7, customer: 8, previous: 9, next: 10, nextFinished: 11, attempts: 12,
		round: 13, event: WebhookInvoicePaid, state: deliveryFailed, listed: true,
	}
}

// FillOutbox queues n messages about n customers for the first endpoint, without their causes.
func (m *Machine) FillOutbox(n int) {
	o := &m.state.Load().outbox
	for i := range n {
		o.enqueue(1, &delivery{customer: 1 + uint32(i)}, nil)
	}
}

// ClaimPending lets the group's outbox look as if n messages more waited in it.
func (m *Machine) ClaimPending(n uint32) { m.state.Load().outbox.pending += n }

// GoldenDeliveryText is the text of a delivery with every field set.
func GoldenDeliveryText(m WebhookMessage) []byte {
	return wire.Encode(nil, &deliveryText{Message: m, Attempts: []Attempt{
		{At: 1, Outcome: AttemptBlocked, Status: 2, Reason: "why", TookMS: 3},
	}})
}

// GoldenEndpointText is the text of an endpoint with every field set.
func GoldenEndpointText() []byte {
	return wire.Encode(nil, &endpointText{
		URL: "https://a.example", About: "about", Secret: []byte{1}, Previous: []byte{2},
		PreviousUntil: 3,
	})
}
