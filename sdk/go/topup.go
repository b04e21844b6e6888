package tollgate

import (
	"context"
	"net/url"
)

// SetTopUp makes a pool, which is named by its id, buy credits whenever its balance is low. It
// turns on what a failed payment has turned off.
func (c *Client) SetTopUp(ctx context.Context, pool string, r TopUpRequest) error {
	_, err := c.Call(ctx, "PUT", prefix+topUpPath(pool), r, nil)
	return err
}

// TopUp returns how a pool is topped up, and what it has bought. An Error with the code
// top_up_not_found: it was never told to be.
func (c *Client) TopUp(ctx context.Context, pool string) (v TopUp, err error) {
	return v, c.get(ctx, topUpPath(pool), &v)
}

// StopTopUp stops topping a pool up. A purchase that is on its way goes on.
func (c *Client) StopTopUp(ctx context.Context, pool string) error {
	_, err := c.Call(ctx, "DELETE", prefix+topUpPath(pool), nil, nil)
	return err
}

func topUpPath(pool string) string { return "/pools/" + url.PathEscape(pool) + "/top-up" }
