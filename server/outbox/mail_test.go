package outbox_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine/billing"
	"tollgate/server/outbox"
	"tollgate/server/provider/mail"
	"tollgate/server/provider/webhook"
)

// letters keeps mails, and answers with results in turn, the last one for good.
type letters struct {
	mu      sync.Mutex
	results []mail.Result
	sent    []mail.Message
}

func (l *letters) Send(_ context.Context, m *mail.Message) mail.Result {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent = append(l.sent, *m)
	r := l.results[0]
	if len(l.results) > 1 {
		l.results = l.results[1:]
	}
	return r
}

// TestEndpointsMayBeMailAddresses: messages come as mails in order, one that may have arrived is
// not sent again, and an address that is refused for good is disabled.
func TestEndpointsMayBeMailAddresses(t *testing.T) {
	d := newDesk(t, 0)
	box := &letters{results: []mail.Result{
		{Outcome: mail.Retry},
		{Outcome: mail.Delivered},
		{Outcome: mail.Unknown},
		{Outcome: mail.Delivered},
		{Outcome: mail.Refused, Status: 550, Reason: "unknown here"},
	}}
	open := func(s mail.Sender) *outbox.Outbox {
		o, err := outbox.New(outbox.Config{
			Machine: d.Machine, Proposer: d, Fetch: d.fetch, SealKey: [32]byte{1}, Mail: s,
			Leads:    func() (uint64, bool) { return 1, true },
			Schedule: webhook.Schedule{moment, moment, moment, moment}, Look: moment,
		})
		require.NoError(t, err)
		return o
	}
	require.ErrorContains(t, open(nil).Check("mailto:a@b.example"), "sends no mails")
	o := open(box)
	require.NoError(t, o.Check("mailto:a@b.example"))
	for _, bad := range []string{"", "a", "a@b.example,c@d.example", "A <a@b>"} {
		require.Error(t, o.Check("mailto:"+bad), bad)
	}
	d.Do(t, billing.KindCreateWebhookEndpoint, &billing.CreateWebhookEndpoint{
		Env: enginetest.Sandbox, ID: enginetest.ID("mail"), URL: "mailto:a@b.example", Secret: []byte{1},
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		o.Run(ctx)
		close(ended)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	d.customers("ada")
	d.subscribe("ada", 0)
	d.drained("mail")
	box.mu.Lock()
	var subjects []string
	for i := range box.sent {
		subjects = append(subjects, box.sent[i].Subject)
	}
	first, again := box.sent[0], box.sent[1]
	box.mu.Unlock()
	require.Equal(t, []string{
		"subscription.created: ada", "subscription.created: ada", "invoice.created: ada",
		"invoice.due: ada",
	}, subjects)
	require.Equal(t, first, again, "an attempt is the same mail")
	require.Contains(t, first.Text, `"planKey":"llm-team"`)

	d.subscribe("ada", 1)
	require.Eventually(t, func() bool {
		return d.endpoint("mail").Off == billing.WebhookOffGone
	}, patience, moment)
}
