package torture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strconv"

	api "tollgate/sdk/go"
)

// booking is one movement of credits that the operator asks for: its key, and what is known of it.
type booking struct {
	key, path, body string
	word            string // grants, deductions, or reverse
	of              *booking
	// id is the transaction, once it is known to be there; refused: it certainly is not.
	id       string
	amount   int64
	refused  bool
	reversed bool // a reversal was asked for
}

// ledger is a pool that an operator grants to and deducts from, while the cluster is tortured, and
// whose transactions it reverses: each booking must be there once, whatever became of its answers.
type ledger struct {
	*report
	fleet    *fleet
	pool     string // path
	bookings []*booking
}

// open makes the pool, of the customer that no client works on.
func (l *ledger) open(ctx context.Context) error {
	admin, err := l.fleet.admin()
	if err != nil {
		return err
	}
	defer admin.Close()
	var made struct {
		ID string `json:"id"`
	}
	_, err = admin.Call(ctx, "POST", sandbox+"/customers/"+paddedCustomer+"/pools",
		map[string]string{"name": "gifts"}, &made)
	if err != nil {
		return fmt.Errorf("torture: create a pool: %w", err)
	}
	l.pool = sandbox + "/pools/" + made.ID
	return nil
}

// keep books one thing after the other, at any node, until ctx ends.
func (l *ledger) keep(ctx context.Context, random *rand.Rand) error {
	nodes, err := l.fleet.admins()
	if err != nil {
		return err
	}
	defer closeAll(nodes)
	for ctx.Err() == nil {
		b := l.next(random)
		try, cancel := context.WithTimeout(ctx, timeouts[random.IntN(len(timeouts))])
		answer, err := nodes[random.IntN(len(nodes))].Try(try, b.request())
		cancel()
		if err == nil {
			l.booked(b, answer)
		}
	}
	return nil
}

// memory is among how many of the newest bookings one is asked for again: a node knows its key as
// long as its transaction is among the newest 1,000 of the pool.
const memory = 200

// next is what is asked for next: something new, a reversal, or what was asked for before, above
// all what has been of unknown fate for long.
func (l *ledger) next(random *rand.Rand) *booking {
	n := len(l.bookings)
	for _, b := range l.bookings[max(0, n-memory):max(0, n-memory/2)] {
		if b.id == "" && !b.refused {
			return b
		}
	}
	dice := random.IntN(100)
	if n > 0 && dice < 30 {
		return l.bookings[n-1-random.IntN(min(n, memory))]
	}
	b := &booking{key: "booking-" + strconv.Itoa(n), word: "deductions", body: `{"amount":1}`}
	b.path = l.pool + "/deductions"
	if of := l.reversible(random); of != nil && dice < 45 {
		of.reversed = true
		b.word, b.of, b.body = "reverse", of, `{"note":"torture"}`
		b.path = sandbox + "/transactions/" + of.id + "/reverse"
	} else if dice < 75 {
		b.word, b.path = "grants", l.pool+"/grants"
	}
	l.bookings = append(l.bookings, b)
	return b
}

// reversible draws a booking. It returns nil unless that one is acknowledged and not yet reversed.
func (l *ledger) reversible(random *rand.Rand) *booking {
	if len(l.bookings) == 0 {
		return nil
	}
	b := l.bookings[random.IntN(len(l.bookings))]
	if b.id == "" || b.reversed || b.word == "reverse" {
		return nil
	}
	return b
}

func (b *booking) request() api.Request {
	return api.Request{
		Method: "POST", Path: b.path, Body: []byte(b.body),
		Header: map[string]string{"Idempotency-Key": b.key},
	}
}

// booked notes an answer: the same booking is the same transaction, from any node and however
// often.
func (l *ledger) booked(b *booking, answer api.Answer) {
	var made struct {
		ID     string      `json:"id"`
		Amount json.Number `json:"amount"`
	}
	switch {
	case answer.Status == 503:
	case answer.Status == 400 && b.id == "":
		b.refused = true // too many grants, or a grant of which nothing is left
	case answer.Status != 201:
		l.violate(byCredits, "%s %s: %d %s", b.word, b.key, answer.Status, answer.Body)
	default:
		err := answer.Data(&made)
		amount, wrong := made.Amount.Int64()
		if err = errors.Join(err, wrong); err != nil || b.id != "" && b.id != made.ID {
			l.violate(byCredits, "%s %s is the transaction %q now, and was %q: %v", b.word, b.key, made.ID,
				b.id, err)
			return
		}
		b.id, b.amount, b.refused = made.ID, amount, false
	}
}

// settle sends every booking that is not known to be there until its fate is known.
func (l *ledger) settle(ctx context.Context) error {
	admin, err := l.fleet.admin()
	if err != nil {
		return err
	}
	defer admin.Close()
	for _, b := range l.bookings {
		if b.id != "" {
			continue
		}
		answer, err := admin.Do(ctx, b.request())
		if err != nil {
			return fmt.Errorf("torture: %s %s: %w", b.word, b.key, err)
		}
		l.booked(b, answer)
	}
	return nil
}

// inspect compares the pool's totals and its transactions, at one node, with the bookings.
func (l *ledger) inspect(ctx context.Context, p *process) error {
	node, err := api.New([]string{p.settings.Ops}, l.fleet.adminKey, 1)
	if err != nil {
		return err
	}
	defer node.Close()
	want := map[string]bool{}
	var sum pool
	for _, b := range l.bookings {
		if b.id == "" {
			continue
		}
		want[b.id] = true
		switch {
		case b.word == "grants":
			sum.TotalGranted += int(b.amount)
		case b.word == "deductions":
			sum.TotalConsumed += int(b.amount)
		case b.of.word == "grants":
			sum.TotalReversed += int(b.amount)
		default:
			sum.TotalConsumed -= int(b.amount)
		}
	}
	sum.Balance = sum.TotalGranted - sum.TotalConsumed - sum.TotalReversed
	var got pool
	if _, err = node.Call(ctx, "GET", l.pool, nil, &got); err != nil {
		return fmt.Errorf("torture: the operator's pool: %w", err)
	}
	if got != sum {
		l.violate(byCredits, "%s says of the operator's pool %+v, its bookings make it %+v", p.id, got,
			sum)
	}
	return l.inspectBookings(ctx, node, p.id, want)
}

// inspectBookings lists all transactions of the pool, page by page.
func (l *ledger) inspectBookings(
	ctx context.Context, node *api.Client, id string, want map[string]bool,
) error {
	query := url.Values{"limit": {"100"}}
	for listed := 0; ; {
		var page struct {
			Transactions []struct {
				ID string `json:"id"`
			} `json:"transactions"`
			Next string `json:"nextCursor"`
		}
		path := l.pool + "/transactions?" + query.Encode()
		if _, err := node.Call(ctx, "GET", path, nil, &page); err != nil {
			return fmt.Errorf("torture: the operator's transactions: %w", err)
		}
		for _, x := range page.Transactions {
			listed++
			if !want[x.ID] {
				l.violate(byCredits, "%s lists the transaction %s, not booked, or listed twice", id, x.ID)
			}
			want[x.ID] = false
		}
		if page.Next == "" {
			if listed != len(want) {
				l.violate(byCredits, "%s lists %d of %d transactions", id, listed, len(want))
			}
			return nil
		}
		query.Set("cursor", page.Next)
	}
}
