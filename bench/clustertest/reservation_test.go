package clustertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	api "tollgate/sdk/go"
)

// holder makes a customer who may use 5,000 output tokens.
func (d *development) holder() {
	d.t.Helper()
	first := d.client("node1", d.SandboxKey)
	call := func(path string, body map[string]any) {
		_, err := first.Call(d.t.Context(), "POST", "/api/v1/client/"+path, body, nil)
		require.NoError(d.t, err)
	}
	call("customers", map[string]any{
		"externalClientCustomerId": "held", "firstName": "H", "lastName": "E",
		"email": "h@example.com",
	})
	call("subscriptions", map[string]any{"customerReferenceId": "held", "planId": "llm-team"})
}

// outputTokens are what a node says is used and held of output tokens.
func outputTokens(t *testing.T, client *api.Client) (used, held int) {
	t.Helper()
	var said struct{ Usage struct{ Used, Held int } }
	_, err := client.Call(t.Context(), "GET", "/api/v1/client/entitlements/held/output-tokens", nil,
		&said)
	require.NoError(t, err)
	return said.Usage.Used, said.Usage.Held
}

// A hundred reservations are each settled and released at once, at two nodes: one of the two is
// carried out, the other refused, and every node says which.
func TestOneEndOfAReservationIsCarriedOut(t *testing.T) {
	d := startCluster(t)
	d.holder()
	var clients []*api.Client
	for _, n := range d.Nodes {
		clients = append(clients, d.client(n.ID, d.SandboxKey))
	}
	const times, units = 100, 3
	wins := 0
	for i := range times {
		made, err := clients[i%3].Reserve(t.Context(), api.ReservationRequest{
			ReservationKey: fmt.Sprint("ended-", i), CustomerReferenceID: "held",
			ReservedItem: api.ReservedItem{FeatureKey: "output-tokens", UsageUnits: "10"},
		})
		require.NoError(t, err)
		var both sync.WaitGroup
		var settled, released error
		both.Go(func() {
			_, settled = clients[(i+1)%3].SettleReservation(context.Background(), made.ID,
				api.ReservationSettlement{ReservedItem: api.ReservedItem{UsageUnits: "3"}})
		})
		both.Go(func() {
			_, released = clients[(i+2)%3].ReleaseReservation(context.Background(), made.ID)
		})
		both.Wait()
		state, total, refused := "released", "0", settled
		if settled == nil {
			state, total, refused = "settled", "3", released
			wins++
		} else {
			require.NoError(t, released)
		}
		require.True(t, api.IsStatus(refused, 409), "%d: %v", i, refused)
		for n, client := range clients {
			v, err := client.Reservation(t.Context(), made.ID)
			require.NoError(t, err)
			require.Equal(t, []string{state, total}, []string{v.State, v.Items[0].SettledUnits.String()},
				"reservation %d at %s", i, d.Nodes[n].ID)
		}
	}
	t.Logf("settled %d of %d times", wins, times)
	for _, client := range clients {
		used, held := outputTokens(t, client)
		require.Equal(t, []int{units * wins, 0}, []int{used, held})
	}
}

// Of 500 tokens that are left 75 fit six times. 20 clients ask for them at once, of two nodes,
// while the third, which leads, is killed and comes back; then one is settled and released, at two
// nodes at once.
func TestReservationsOutliveTheirLeader(t *testing.T) {
	d := startCluster(t)
	d.holder()
	_, err := d.client("node1", d.SandboxKey).RecordEvent(t.Context(), api.EventRequest{
		EventIdempotencyKey: "before", EventName: "output-tokens", CustomerReferenceID: "held",
		UsageUnits: "4500", OccurredAt: time.Now(),
	})
	require.NoError(t, err)

	killed, through := d.leader(), d.followers()
	var all sync.WaitGroup
	var mutex sync.Mutex
	granted, refused := []string{}, 0
	for i := range 20 {
		client := d.client(through[i%2], d.SandboxKey)
		all.Go(func() {
			r, err := client.Reserve(context.Background(), api.ReservationRequest{
				ReservationKey: fmt.Sprint("call-", i), CustomerReferenceID: "held",
				ReservedItem: api.ReservedItem{FeatureKey: "output-tokens", UsageUnits: "75"},
			})
			mutex.Lock()
			defer mutex.Unlock()
			var said *api.Error
			switch {
			case err == nil:
				granted = append(granted, r.ID)
			case errors.As(err, &said) && said.Status == 402:
				refused++
			default:
				t.Error(err)
			}
		})
	}
	d.signal(killed, syscall.SIGKILL)
	all.Wait()
	require.Len(t, granted, 6)
	require.Equal(t, 14, refused)
	d.leader(killed)
	d.restart(killed)
	d.ready(killed)
	holds := func(used, held, open int) {
		t.Helper()
		for _, n := range d.Nodes {
			client := d.client(n.ID, d.SandboxKey)
			nowUsed, nowHeld := outputTokens(t, client)
			require.Equal(t, []int{used, held}, []int{nowUsed, nowHeld}, n.ID)
			count := 0
			for _, err := range client.Reservations(t.Context(), "held", "open") {
				require.NoError(t, err)
				count++
			}
			require.Equal(t, open, count, n.ID)
		}
	}
	holds(4500, 450, 6)

	other, back := d.client(through[0], d.SandboxKey), d.client(killed, d.SandboxKey)
	var settled, released error
	all.Go(func() {
		_, settled = other.SettleReservation(context.Background(), granted[0],
			api.ReservationSettlement{ReservedItem: api.ReservedItem{UsageUnits: "10"}})
	})
	all.Go(func() {
		_, released = back.ReleaseReservation(context.Background(), granted[0])
	})
	all.Wait()
	var said *api.Error
	if settled == nil {
		require.ErrorAs(t, released, &said)
		holds(4510, 375, 5)
	} else {
		require.NoError(t, released)
		require.ErrorAs(t, settled, &said)
		holds(4500, 375, 5)
	}
	require.Equal(t, 409, said.Status)
}
