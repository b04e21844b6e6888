package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	api "tollgate/sdk/go"
)

// pageOfEvents is a page of events as the client API answers it.
type pageOfEvents struct {
	Events       []map[string]any `json:"events"`
	NextCursor   string           `json:"nextCursor,omitempty"`
	NewestCursor string           `json:"newestCursor,omitempty"`
}

// paging is a client of a server that answers with pages, by the request's query.
func paging(t *testing.T, answer func(url.Values) pageOfEvents) *api.Client {
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(map[string]any{"success": true, "data": answer(r.URL.Query())})
	}))
	t.Cleanup(node.Close)
	client, err := api.New([]string{node.URL}, "key", 1)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

// TestTheTailOfAllGoesOnFromWhereItWas: however much of others is recorded meanwhile, every page
// that leads back to there is read, and none before it. It warns where it leaves events out.
func TestTheTailOfAllGoesOnFromWhereItWas(t *testing.T) {
	var asked []url.Values
	var pages []pageOfEvents
	client := paging(t, func(query url.Values) pageOfEvents {
		asked = append(asked, query)
		page := pages[0]
		pages = pages[1:]
		return page
	})
	warned := 0
	tail := &tail{
		client: client, path: "/api/v1/client/events", query: url.Values{"kind": {"usage"}},
		from: time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC), warn: func(string) { warned++ },
	}
	next := func(some ...pageOfEvents) (ids []string) {
		asked, pages = nil, some
		require.NoError(t, tail.next(t.Context(), func(e *api.Event) error {
			ids = append(ids, e.ID)
			return nil
		}))
		require.Empty(t, pages)
		return ids
	}
	event := func(id string) map[string]any { return map[string]any{"id": id, "kind": "usage"} }

	require.Empty(t, next(pageOfEvents{NewestCursor: "c1"}))
	require.Equal(t, "2026-05-01T00:00:00Z", asked[0].Get("from"))
	quiet := []pageOfEvents{{NextCursor: "a", NewestCursor: "c2"}}
	for range 20 {
		quiet = append(quiet, pageOfEvents{NextCursor: "b"})
	}
	require.Equal(t, []string{"1-0"},
		next(append(quiet, pageOfEvents{Events: []map[string]any{event("1-0")}})...))
	require.Zero(t, warned)
	for i, query := range asked {
		require.Equal(t, "c1", query.Get("until"))
		require.Empty(t, query.Get("from"), "of events that occurred before, too")
		require.Equal(t, "usage", query.Get("kind"))
		require.Equal(t, i == 0, query.Get("cursor") == "")
	}
	require.Empty(t, next(pageOfEvents{}), "of a node that knows no more yet")
	require.Empty(t, next(pageOfEvents{NewestCursor: "c2"}))
	require.Equal(t, "c2", asked[0].Get("until"))

	var many []pageOfEvents
	for p := range tailMost/eventsPage + 1 {
		page := pageOfEvents{NextCursor: "more"}
		for i := range eventsPage {
			page.Events = append(page.Events, event(fmt.Sprintf("%d-%d", 99-p, eventsPage-i)))
		}
		many = append(many, page)
	}
	ids := next(many...)
	require.Len(t, ids, tailMost)
	require.Equal(t, fmt.Sprintf("99-%d", eventsPage), ids[tailMost-1], "the newest are printed")
	require.Equal(t, 1, warned)
}

// TestTheTailOfACustomerMissesNothing: what occurred long before the newest, and corrections, are
// printed as they are recorded; those of others are not.
func TestTheTailOfACustomerMissesNothing(t *testing.T) {
	pages := []pageOfEvents{
		{NewestCursor: "c1", Events: []map[string]any{
			{"id": "1-0", "customerReferenceId": "ada", "occurredAt": "2026-05-01T00:00:00Z"},
		}},
		{NewestCursor: "c2", Events: []map[string]any{
			{"id": "4-0", "customerReferenceId": "ada", "occurredAt": "2026-04-20T00:00:00Z", "kind": "void"},
			{"id": "3-0", "customerReferenceId": "bob", "occurredAt": "2026-05-01T00:00:01Z"},
			{"id": "2-0", "customerReferenceId": "ada", "occurredAt": "2026-04-25T00:00:00Z"},
		}},
	}
	client := paging(t, func(url.Values) (p pageOfEvents) {
		p, pages = pages[0], pages[1:]
		return p
	})
	tail := &tail{
		client: client, path: "/api/v1/client/events", query: url.Values{}, customer: "ada",
		warn: func(text string) { t.Error(text) },
	}
	var ids []string
	for range 2 {
		require.NoError(t, tail.next(t.Context(), func(e *api.Event) error {
			ids = append(ids, e.ID)
			return nil
		}))
	}
	require.Equal(t, []string{"1-0", "2-0", "4-0"}, ids)
}

// TestTheTailOfAnOlderNodeEnds: its answers do not say how far they go, so the same events would be
// printed each second.
func TestTheTailOfAnOlderNodeEnds(t *testing.T) {
	client := paging(t, func(url.Values) pageOfEvents {
		return pageOfEvents{Events: []map[string]any{{"id": "1-0"}}}
	})
	tail := &tail{client: client, path: "/api/v1/client/events", query: url.Values{}}
	err := tail.next(t.Context(), func(*api.Event) error {
		t.Error("an event was printed")
		return nil
	})
	require.ErrorIs(t, err, errOlderNode)
}

// TestTheTailOfOnesOwnPrintsWhileItReads, and knows no more events than it has to.
func TestTheTailOfOnesOwnPrintsWhileItReads(t *testing.T) {
	at := time.Now().UTC().Truncate(time.Second).AddDate(-1, 0, 0)
	const pages = 5
	printed, page := 0, 0
	client := paging(t, func(url.Values) (p pageOfEvents) {
		if printed != page*eventsPage {
			t.Errorf("%d events of %d pages are printed", printed, page)
		}
		for range eventsPage {
			at = at.Add(time.Second)
			p.Events = append(p.Events, map[string]any{
				"id": fmt.Sprint(at.Unix()), "occurredAt": at.Format(time.RFC3339),
			})
		}
		if page++; page < pages {
			p.NextCursor = "next"
		}
		return p
	})
	tail := &ownTail{
		client: client, customer: "ada", query: url.Values{}, from: at, seen: map[string]time.Time{},
	}
	known := 0
	require.NoError(t, tail.next(t.Context(), func(*api.Event) error {
		printed++
		known = max(known, len(tail.seen))
		return nil
	}))
	require.Equal(t, pages*eventsPage, printed)
	require.LessOrEqual(t, known, eventsPage+int(tailLate/time.Second)+1)
}

// TestTheTailOfOnesOwnGoesOnWhereTheClockIsAhead: it neither reads nor knows all for good, where
// each event is ahead of this machine's clock.
func TestTheTailOfOnesOwnGoesOnWhereTheClockIsAhead(t *testing.T) {
	at := time.Now().UTC().Truncate(time.Second).AddDate(1, 0, 0)
	var list []map[string]any
	for i := range tailMost + 5 {
		at = at.Add(time.Second)
		list = append(list, map[string]any{"id": fmt.Sprint(i), "occurredAt": at.Format(time.RFC3339)})
	}
	client := paging(t, func(query url.Values) (p pageOfEvents) {
		from, err := time.Parse(time.RFC3339Nano, query.Get("from"))
		require.NoError(t, err)
		for _, e := range list {
			if at, _ := time.Parse(time.RFC3339, e["occurredAt"].(string)); !at.Before(from) {
				p.Events = append(p.Events, e)
			}
		}
		return p
	})
	tail := &ownTail{
		client: client, customer: "ada", query: url.Values{}, from: time.Now(),
		seen: map[string]time.Time{},
	}
	printed := 0
	next := func() {
		t.Helper()
		require.NoError(t, tail.next(t.Context(), func(*api.Event) error {
			printed++
			return nil
		}))
	}
	next()
	require.Equal(t, at.Add(-tailMost*time.Second+time.Millisecond), tail.from.UTC())
	require.Len(t, tail.seen, tailMost)
	next()
	require.Equal(t, len(list), printed, "each once")
}

// TestTheTailOfOnesOwnGoesOnWhereTheClockIsBehind: it prints what is recorded next, if it occurred
// with the newest or up to two minutes before it, too, and nothing of before, also for who has no
// event yet.
func TestTheTailOfOnesOwnGoesOnWhereTheClockIsBehind(t *testing.T) {
	behind := time.Now().UTC().Truncate(time.Second).AddDate(-1, 0, 0)
	for _, known := range []int{0, 3} {
		var list []map[string]any
		use := func(at time.Duration) {
			list = append(list, map[string]any{
				"id": fmt.Sprint(len(list)), "occurredAt": behind.Add(at).Format(time.RFC3339),
			})
		}
		for i := range known {
			use(time.Duration(i-known+1) * time.Second)
		}
		client := paging(t, func(query url.Values) (p pageOfEvents) {
			from, to := time.Time{}, behind.AddDate(2, 0, 0)
			for name, at := range map[string]*time.Time{"from": &from, "to": &to} {
				if text := query.Get(name); text != "" {
					var err error
					*at, err = time.Parse(time.RFC3339Nano, text)
					require.NoError(t, err)
				}
			}
			for _, e := range list {
				at, _ := time.Parse(time.RFC3339, e["occurredAt"].(string))
				if !at.Before(from) && at.Before(to) {
					p.Events = append(p.Events, e)
				}
			}
			if query.Get("order") == "desc" {
				slices.Reverse(p.Events)
			}
			return p
		})
		tail := &ownTail{
			client: client, customer: "ada", query: url.Values{}, from: time.Now(),
			seen: map[string]time.Time{},
		}
		require.NoError(t, tail.begin(t.Context()))
		printed := 0
		for want := range 4 {
			require.NoError(t, tail.next(t.Context(), func(*api.Event) error {
				printed++
				return nil
			}))
			require.Equal(t, want, printed, "%d before", known)
			// With the newest, a second before it, and two minutes before it.
			use([]time.Duration{0, -time.Second, -tailLate, 0}[want])
		}
	}
}

// TestAnEndpointThatNeverWasIsNotSaidToBeRemoved: though the request was sent again. One that was
// there is gone by the try whose answer was lost.
func TestAnEndpointThatNeverWasIsNotSaidToBeRemoved(t *testing.T) {
	for _, there := range []bool{false, true} {
		tries := 0
		node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == "DELETE" {
				tries++
			}
			switch {
			case tries == 1 && there:
				panic(http.ErrAbortHandler)
			case tries == 1:
				w.WriteHeader(503)
			case tries > 1 || !there:
				w.WriteHeader(404)
				fmt.Fprint(w, `{"success":false,"error":{"code":"webhook_endpoint_not_found"}}`)
			default:
				fmt.Fprint(w, `{"success":true,"data":{}}`)
			}
		}))
		t.Cleanup(node.Close)
		client, err := api.New([]string{node.URL}, "key", 1)
		require.NoError(t, err)
		t.Cleanup(client.Close)
		_, err = send(t.Context(), client, "DELETE", "/webhook-endpoints/1", nil, nil)
		require.Equal(t, there, err == nil, err)
		require.Equal(t, 2, tries)
	}
}
