package tollgate

import (
	"context"
	"errors"
	"net/url"
)

// Operations are calls of the admin API for one environment. They go to the operations listeners of
// the nodes, with the admin key.
type Operations struct {
	client *Client
	at     string
}

// Operations returns the calls for an environment of an account: live or sandbox.
func (c *Client) Operations(account, environment string) Operations {
	return Operations{c, "/api/v1/admin/accounts/" + url.PathEscape(account) + "/environments/" +
		url.PathEscape(environment)}
}

// Keys returns the environment's API keys, those that were revoked too.
func (o Operations) Keys(ctx context.Context) ([]Key, error) {
	return ask[[]Key](ctx, o.client, "GET", o.at+"/keys", nil)
}

// CreateKey makes an API key, which only this answer has.
func (o Operations) CreateKey(ctx context.Context, r KeyRequest) (MadeKey, error) {
	return ask[MadeKey](ctx, o.client, "POST", o.at+"/keys", r)
}

// BindKey lets requests with an API key, which is named by its id, spend at one budget or below it,
// and nowhere else. An empty budget ends that.
func (o Operations) BindKey(ctx context.Context, id, budget string) error {
	to := struct {
		Budget string `json:"budget,omitzero"`
	}{budget}
	_, err := o.client.Call(ctx, "PUT", o.at+"/keys/"+url.PathEscape(id)+"/budget", to, nil)
	return err
}

// SettleReservation records what was used of a reservation in all, and unless Final is false, gives
// up the rest. A repetition counts nothing twice.
func (o Operations) SettleReservation(
	ctx context.Context, id string, r ReservationSettlement,
) (Reservation, error) {
	return ask[Reservation](ctx, o.client, "POST",
		o.at+"/reservations/"+url.PathEscape(id)+"/settle", r)
}

// ExtendReservation makes a reservation hold more, or live longer.
func (o Operations) ExtendReservation(
	ctx context.Context, id string, r ReservationExtension,
) (Reservation, error) {
	return ask[Reservation](ctx, o.client, "POST",
		o.at+"/reservations/"+url.PathEscape(id)+"/extend", r)
}

// ReleaseReservation gives up what a reservation holds.
func (o Operations) ReleaseReservation(ctx context.Context, id string) (Reservation, error) {
	return ask[Reservation](ctx, o.client, "POST",
		o.at+"/reservations/"+url.PathEscape(id)+"/release", nil)
}

// CreatePool makes a pool of credits for a customer.
func (o Operations) CreatePool(
	ctx context.Context, customer string, r PoolRequest,
) (CreditPool, error) {
	return ask[CreditPool](ctx, o.client, "POST", o.pools(customer), r)
}

// Pools returns a customer's pools, those that were archived too.
func (o Operations) Pools(ctx context.Context, customer string) ([]CreditPool, error) {
	return ask[[]CreditPool](ctx, o.client, "GET", o.pools(customer), nil)
}

func (o Operations) pools(customer string) string {
	return o.at + "/customers/" + url.PathEscape(customer) + "/pools"
}

// GrantCredits adds credits to a pool, which is named by its id.
func (o Operations) GrantCredits(
	ctx context.Context, pool string, r GrantRequest,
) (PoolTransaction, error) {
	return ask[PoolTransaction](ctx, o.client, "POST",
		o.at+"/pools/"+url.PathEscape(pool)+"/grants", r)
}

// WebhookRequest asks for an endpoint that is told of events; without Events, of all.
type WebhookRequest struct {
	URL         string   `json:"url"`
	Events      []string `json:"events,omitzero"`
	Description string   `json:"description,omitzero"`
}

// CreateWebhook adds an endpoint. Its signing secret is in this answer, and nowhere else.
func (o Operations) CreateWebhook(
	ctx context.Context, r WebhookRequest,
) (WebhookEndpoint, error) {
	return ask[WebhookEndpoint](ctx, o.client, "POST", o.at+"/webhook-endpoints", r)
}

// Webhooks returns the endpoints, oldest first.
func (o Operations) Webhooks(ctx context.Context) ([]WebhookEndpoint, error) {
	return ask[[]WebhookEndpoint](ctx, o.client, "GET", o.at+"/webhook-endpoints", nil)
}

// DeleteWebhook removes an endpoint with what waits for it. One that is not there is a success: it
// may have been removed by a try whose answer was lost.
func (o Operations) DeleteWebhook(ctx context.Context, id string) error {
	_, err := o.client.Call(ctx, "DELETE", o.at+"/webhook-endpoints/"+url.PathEscape(id), nil, nil)
	var refused *Error
	if errors.As(err, &refused) && refused.Code == "webhook_endpoint_not_found" {
		return nil
	}
	return err
}
