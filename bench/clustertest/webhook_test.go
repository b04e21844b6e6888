package clustertest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"tollgate/cmd/tollgate/demo"
	api "tollgate/sdk/go"
)

// books is a receiver of webhooks, whose answers a test can hold back.
type books struct {
	mu       sync.Mutex
	verifier *standard.Webhook
	hold     chan struct{} // nil: answers at once
	held     int
	order    []string // of messages, the first time that each came
	subject  map[string][]string
	times    map[string]int
	problems []error
}

func (b *books) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	b.mu.Lock()
	if err == nil {
		err = b.verifier.Verify(body, r.Header)
	}
	var m struct {
		Type string
		Data struct{ CustomerReferenceID string }
	}
	if err == nil {
		err = json.Unmarshal(body, &m)
	}
	if err != nil {
		b.problems = append(b.problems, err)
	}
	id := r.Header.Get("webhook-id")
	if b.times[id]++; b.times[id] == 1 {
		customer := m.Data.CustomerReferenceID
		b.order = append(b.order, id)
		b.subject[customer] = append(b.subject[customer], m.Type)
	}
	hold := b.hold
	if hold != nil {
		b.held++
	}
	b.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-r.Context().Done():
		}
	}
	w.WriteHeader(http.StatusNoContent)
}

func (b *books) count() (messages, held int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.order), b.held
}

// The leader is killed while deliveries are under way: the next one sends every message, in order
// for each customer, and none under another id.
func TestWebhooksSurviveAKilledLeader(t *testing.T) {
	t.Parallel()
	d := startCluster(t)
	b := &books{subject: map[string][]string{}, times: map[string]int{}}
	receiver := httptest.NewServer(b)
	t.Cleanup(func() {
		receiver.CloseClientConnections()
		receiver.Close()
	})
	secret, err := d.tollgate("webhooks", "create", receiver.URL+"/hook", "--data", string(d.folder))
	require.NoError(t, err, secret)
	b.verifier, err = standard.NewWebhook(strings.Fields(secret)[0])
	require.NoError(t, err)

	b.mu.Lock()
	b.hold = make(chan struct{})
	b.mu.Unlock()
	const customers = 12
	leader := d.leader()
	client := d.client(d.followers()[0], d.SandboxKey)
	for i := range customers {
		d.subscribe(client, fmt.Sprint("webhook-", i))
	}
	require.Eventually(t, func() bool {
		_, held := b.count()
		return held > 0
	}, patience, statusEvery, "a delivery is under way")
	d.signal(leader, syscall.SIGKILL)
	b.mu.Lock()
	close(b.hold)
	b.hold = nil
	b.mu.Unlock()

	require.Eventually(t, func() bool {
		messages, _ := b.count()
		return messages == 3*customers
	}, patience, statusEvery, "every message has come")
	b.mu.Lock()
	defer b.mu.Unlock()
	require.Empty(t, b.problems)
	for i := range customers {
		require.Equal(t, []string{"subscription.created", "invoice.created", "invoice.due"},
			b.subject[fmt.Sprint("webhook-", i)])
	}
}

// subscribe makes a customer with a subscription.
func (d *development) subscribe(client *api.Client, customer string) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err := client.Call(ctx, "POST", "/api/v1/client/customers", map[string]string{
		"externalClientCustomerId": customer, "firstName": "Ada", "lastName": "Lovelace",
		"email": "ada@example.com",
	}, nil)
	require.NoError(d.t, err)
	_, err = client.Call(ctx, "POST", "/api/v1/client/subscriptions", map[string]string{
		"planId": demo.ReplayPlan, "customerReferenceId": customer,
	}, nil)
	require.NoError(d.t, err)
}
