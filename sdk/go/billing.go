package tollgate

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/url"
	"path"
	"strconv"
)

const prefix = "/api/v1/client"

// The methods below call the client API. Each repeats its request, on another node where one does
// not serve, until it gets a definite answer, the context ends or the client's Patience does. A
// repeated request has the same idempotency key, so it takes effect once.

type keyOf struct{}

// WithIdempotencyKey returns a context whose next change has this key: a program that repeats a
// change after it was restarted passes the key that it had noted before. Without it each change
// gets a random key; Reserve, SettleReservation and ReleaseReservation, which do nothing when they
// are repeated, get none. An environment keeps the answers to 100,000 keys a day: a program that
// makes more changes passes an empty key, which sends none, where a repeated change does nothing.
func WithIdempotencyKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, keyOf{}, key)
}

func keyIn(ctx context.Context) string {
	if key, ok := ctx.Value(keyOf{}).(string); ok {
		return key
	}
	return rand.Text()
}

// unkeyed returns a context whose next change has a key only if its caller has given one: it is
// idempotent, and its random keys would use up the environment's.
func unkeyed(ctx context.Context) context.Context {
	if _, given := ctx.Value(keyOf{}).(string); given {
		return ctx
	}
	return WithIdempotencyKey(ctx, "")
}

// ask makes a call and returns the data of its answer.
func ask[T any](ctx context.Context, c *Client, method, path string, r any) (v T, err error) {
	_, err = c.Call(ctx, method, path, r, &v)
	return v, err
}

func (c *Client) get(ctx context.Context, at string, out any) error {
	_, err := c.Call(ctx, "GET", prefix+at, nil, out)
	return err
}

// CreateCustomer makes a customer and returns its ExternalClientCustomerID.
func (c *Client) CreateCustomer(ctx context.Context, r CustomerRequest) (id string, err error) {
	answer, err := c.Call(ctx, "POST", prefix+"/customers", r, nil)
	if err != nil {
		return "", err
	}
	id, err = url.PathUnescape(path.Base(answer.Header.Get("Location")))
	if err != nil {
		return "", fmt.Errorf("answer's location: %w", err)
	}
	return id, nil
}

// Customer returns a customer by its ExternalClientCustomerID, as all methods name customers.
func (c *Client) Customer(ctx context.Context, id string) (v Customer, err error) {
	return v, c.get(ctx, "/customers/"+url.PathEscape(id), &v)
}

// ChangeCustomer changes fields of a customer.
func (c *Client) ChangeCustomer(ctx context.Context, id string, change CustomerChange) error {
	_, err := c.Call(ctx, "PATCH", prefix+"/customers/"+url.PathEscape(id), change, nil)
	return err
}

// ArchiveCustomer takes a customer out of use, for good.
func (c *Client) ArchiveCustomer(ctx context.Context, id string) error {
	_, err := c.Call(ctx, "DELETE", prefix+"/customers/"+url.PathEscape(id), nil, nil)
	return err
}

// CreatePortalLink makes a link that opens the customer's own pages.
func (c *Client) CreatePortalLink(
	ctx context.Context, customer string, r PortalLinkRequest,
) (PortalLink, error) {
	return ask[PortalLink](ctx, c, "POST", portalLinks(customer), r)
}

// RevokePortalLinks ends all links to a customer's pages.
func (c *Client) RevokePortalLinks(ctx context.Context, customer string) error {
	_, err := c.Call(ctx, "DELETE", portalLinks(customer), nil, nil)
	return err
}

func portalLinks(customer string) string {
	return prefix + "/customers/" + url.PathEscape(customer) + "/portal-links"
}

// Plans returns the plans of the catalog.
func (c *Client) Plans(ctx context.Context) (all []Plan, err error) {
	return all, c.get(ctx, "/plans", &all)
}

// CreateSubscription subscribes a customer to a plan.
func (c *Client) CreateSubscription(
	ctx context.Context, r SubscriptionRequest,
) (Created, error) {
	return ask[Created](ctx, c, "POST", prefix+"/subscriptions", r)
}

// Subscription returns a subscription.
func (c *Client) Subscription(ctx context.Context, id string) (v Subscription, err error) {
	return v, c.get(ctx, "/subscriptions/"+url.PathEscape(id), &v)
}

// Subscriptions returns a customer's subscriptions, also those that have ended.
func (c *Client) Subscriptions(
	ctx context.Context, customer string,
) (all []Subscription, err error) {
	return all, c.get(ctx, "/customers/"+url.PathEscape(customer)+"/subscriptions?status=all", &all)
}

// ChangePlan upgrades a subscription now, or downgrades it at the end of its period.
func (c *Client) ChangePlan(ctx context.Context, id string, r PlanChangeRequest) error {
	at := prefix + "/subscriptions/" + url.PathEscape(id) + "/plan-change"
	_, err := c.Call(ctx, "POST", at, r, nil)
	return err
}

// CancelSubscription cancels a subscription: mode is IMMEDIATE or END_OF_PERIOD.
func (c *Client) CancelSubscription(ctx context.Context, id, mode string) error {
	at := prefix + "/subscriptions/cancellation/" + url.PathEscape(id) +
		"?cancelMode=" + url.QueryEscape(mode)
	_, err := c.Call(ctx, "POST", at, nil, nil)
	return err
}

// Recorded is what became of a usage event that was sent.
type Recorded struct {
	// Key is its idempotency key: sent again with it, the event counts nothing.
	Key string
	// Before reports that it was recorded already, by an earlier call or by an earlier try of this
	// one whose answer was lost.
	Before bool
	// LimitExceeded reports that the event reached its feature's limit; false where Before is true.
	LimitExceeded bool
}

// RecordEvent records a usage event, once for its EventIdempotencyKey, which is random where there
// is none. With an error that leaves open whether it was recorded, Recorded has the key to send it
// again with.
func (c *Client) RecordEvent(ctx context.Context, r EventRequest) (v Recorded, err error) {
	if r.EventIdempotencyKey == "" {
		r.EventIdempotencyKey = cmp.Or(keyIn(ctx), rand.Text())
	}
	v.Key = r.EventIdempotencyKey
	answer, err := c.Call(WithIdempotencyKey(ctx, ""), "POST", prefix+"/events", r, nil)
	var refused *Error
	if errors.As(err, &refused) && refused.Code == "duplicate_key" {
		v.Before = true
		return v, nil
	}
	if err == nil && answer.Status == 200 {
		var out EventResult
		err = answer.Data(&out)
		v.LimitExceeded = out.UsageLimitExceeded
	}
	return v, err
}

// RecordEvents records up to 10,000 usage events, each once for its EventIdempotencyKey, which none
// may lack. The result says of each what became of it. One with the code duplicate_key was recorded
// before.
func (c *Client) RecordEvents(
	ctx context.Context, all []EventRequest,
) (BatchResult, error) {
	return ask[BatchResult](WithIdempotencyKey(ctx, ""), c, "POST", prefix+"/events/batch", all)
}

// VoidEvent takes a usage event back.
func (c *Client) VoidEvent(ctx context.Context, key string, r EventVoid) error {
	_, err := c.Call(ctx, "POST", prefix+"/events/"+url.PathEscape(key)+"/void", r, nil)
	return err
}

// PreviewCorrection says what amending a usage event to units would do to money, or with empty
// units what voiding it would.
func (c *Client) PreviewCorrection(
	ctx context.Context, key string, units json.Number,
) (v CorrectionPreview, err error) {
	path := "/events/" + url.PathEscape(key) + "/correction-preview"
	if units != "" {
		path += "?" + url.Values{"usageUnits": {units.String()}}.Encode()
	}
	return v, c.get(ctx, path, &v)
}

// AmendEvent gives a usage event another quantity.
func (c *Client) AmendEvent(ctx context.Context, key string, r EventAmendment) error {
	_, err := c.Call(ctx, "POST", prefix+"/events/"+url.PathEscape(key)+"/amend", r, nil)
	return err
}

// Reserve holds units for a customer, once for its ReservationKey. A DryRun holds nothing.
func (c *Client) Reserve(ctx context.Context, r ReservationRequest) (Reservation, error) {
	return ask[Reservation](unkeyed(ctx), c, "POST", prefix+"/reservations", r)
}

// Reservation returns a reservation in any state.
func (c *Client) Reservation(ctx context.Context, id string) (v Reservation, err error) {
	return v, c.get(ctx, "/reservations/"+url.PathEscape(id), &v)
}

// Reservations goes through a customer's reservations, the newest first, of one state, or of all
// where it is empty.
func (c *Client) Reservations(
	ctx context.Context, customer, state string,
) iter.Seq2[Reservation, error] {
	filter := url.Values{"customerReferenceId": {customer}, "limit": {"100"}}
	if state != "" {
		filter.Set("state", state)
	}
	return pages(ctx, c, "/reservations", filter, func(a Answer) ([]Reservation, string, error) {
		var page ReservationPage
		err := a.Data(&page)
		return page.Reservations, page.NextCursor, err
	})
}

// SettleReservation records what was used of a reservation in all, and unless Final is false, gives
// up the rest. A repetition counts nothing twice.
func (c *Client) SettleReservation(
	ctx context.Context, id string, r ReservationSettlement,
) (Reservation, error) {
	return c.reservation(unkeyed(ctx), id, "settle", r)
}

// ExtendReservation makes a reservation hold more, or live longer.
func (c *Client) ExtendReservation(
	ctx context.Context, id string, r ReservationExtension,
) (Reservation, error) {
	return c.reservation(ctx, id, "extend", r)
}

// ReleaseReservation gives up what a reservation holds.
func (c *Client) ReleaseReservation(ctx context.Context, id string) (Reservation, error) {
	return c.reservation(unkeyed(ctx), id, "release", nil)
}

func (c *Client) reservation(
	ctx context.Context, id, act string, r any,
) (Reservation, error) {
	at := prefix + "/reservations/" + url.PathEscape(id) + "/" + act
	return ask[Reservation](ctx, c, "POST", at, r)
}

// pageSize is how many records are asked for at a time.
const pageSize = 200

// pages goes through a listing, page by page; of takes the records out of a page. A listing that
// fails ends with the error.
func pages[T any](
	ctx context.Context, c *Client, at string, filter url.Values, of func(Answer) ([]T, string, error),
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		query := url.Values{"limit": {strconv.Itoa(pageSize)}}
		for name, values := range filter {
			query[name] = values
		}
		for {
			answer, err := c.Do(ctx, Request{Method: "GET", Path: prefix + at + "?" + query.Encode()})
			var records []T
			var next string
			if err == nil {
				records, next, err = of(answer)
			}
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, record := range records {
				if !yield(record, nil) {
					return
				}
			}
			if next == "" {
				return
			}
			query.Set("cursor", next)
		}
	}
}

// Invoices goes through a customer's invoices, oldest first. filter has query parameters of the
// listing, such as status; it may be nil.
func (c *Client) Invoices(
	ctx context.Context, customer string, filter url.Values,
) iter.Seq2[Invoice, error] {
	return pages(ctx, c, "/billing/invoices/"+url.PathEscape(customer), filter,
		func(a Answer) (all []Invoice, next string, err error) {
			var e envelope
			err = errors.Join(a.Data(&all), json.Unmarshal(a.Body, &e))
			return all, e.NextCursor, err
		})
}

// Events goes through a customer's events, as Invoices does; with an empty customer through those
// of all customers, the most recently recorded first.
func (c *Client) Events(
	ctx context.Context, customer string, filter url.Values,
) iter.Seq2[Event, error] {
	path := "/events"
	if customer != "" {
		path = "/customers/" + url.PathEscape(customer) + path
	}
	return pages(ctx, c, path, filter,
		func(a Answer) ([]Event, string, error) {
			var page EventPage
			err := a.Data(&page)
			return page.Events, page.NextCursor, err
		})
}

// Usage is what a customer used, or with an empty customer all of them together: by feature, in
// buckets. filter has further query parameters: feature, by, from and to; it may be nil.
func (c *Client) Usage(
	ctx context.Context, customer string, filter url.Values,
) (v UsageReport, err error) {
	query := url.Values{}
	maps.Copy(query, filter)
	if customer != "" {
		query.Set("customer", customer)
	}
	return v, c.get(ctx, "/usage?"+query.Encode(), &v)
}
