package tollgate

import (
	"context"
	"net/url"
)

// Check decides whether a customer may use a feature.
func (c *Client) Check(ctx context.Context, customer, feature string) (d Decision, err error) {
	return d, c.get(ctx, "/entitlements/"+url.PathEscape(customer)+"/"+url.PathEscape(feature), &d)
}

// Entitlements returns what a customer's plans entitle it to.
func (c *Client) Entitlements(ctx context.Context, customer string) (all []Entitlement, err error) {
	return all, c.get(ctx, "/entitlements/"+url.PathEscape(customer), &all)
}
