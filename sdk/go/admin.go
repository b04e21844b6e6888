package tollgate

import (
	"context"
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
func (o Operations) Keys(ctx context.Context) (all []Key, err error) {
	_, err = o.client.Call(ctx, "GET", o.at+"/keys", nil, &all)
	return all, err
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
) (v Reservation, err error) {
	_, err = o.client.Call(ctx, "POST", o.at+"/reservations/"+url.PathEscape(id)+"/settle", r, &v)
	return v, err
}

// ExtendReservation makes a reservation hold more, or live longer.
func (o Operations) ExtendReservation(
	ctx context.Context, id string, r ReservationExtension,
) (v Reservation, err error) {
	_, err = o.client.Call(ctx, "POST", o.at+"/reservations/"+url.PathEscape(id)+"/extend", r, &v)
	return v, err
}

// ReleaseReservation gives up what a reservation holds.
func (o Operations) ReleaseReservation(ctx context.Context, id string) (v Reservation, err error) {
	_, err = o.client.Call(ctx, "POST", o.at+"/reservations/"+url.PathEscape(id)+"/release", nil, &v)
	return v, err
}
