package tollgate

import (
	"context"
	"iter"
	"net/url"
)

// PutBudget makes a budget under the caller's own key, or replaces what an existing one is but for
// its place in the tree.
func (c *Client) PutBudget(ctx context.Context, key string, r BudgetRequest) (Budget, error) {
	return c.budget(ctx, "PUT", key, "", r)
}

// Budget returns a budget with what its limits have used, hold and have left.
func (c *Client) Budget(ctx context.Context, key string) (v Budget, err error) {
	return v, c.get(ctx, "/budgets/"+url.PathEscape(key), &v)
}

// Budgets goes through the budgets right below one, or where parent is empty, below none.
func (c *Client) Budgets(ctx context.Context, parent string) iter.Seq2[Budget, error] {
	filter := url.Values{"limit": {"100"}}
	if parent != "" {
		filter.Set("parent", parent)
	}
	return pages(ctx, c, "/budgets", filter, func(a Answer) ([]Budget, string, error) {
		var page BudgetPage
		err := a.Data(&page)
		return page.Budgets, page.NextCursor, err
	})
}

// BudgetWindows returns the past windows of each limit of a budget, newest first.
func (c *Client) BudgetWindows(ctx context.Context, key string) ([][]BudgetWindow, error) {
	var out struct {
		Windows [][]BudgetWindow `json:"windows"`
	}
	err := c.get(ctx, "/budgets/"+url.PathEscape(key)+"/windows", &out)
	return out.Windows, err
}

// MoveBudget puts a budget with all below it under another one, or if parent is empty, under none.
func (c *Client) MoveBudget(ctx context.Context, key, parent string) (Budget, error) {
	to := struct {
		Parent string `json:"parent,omitzero"`
	}{parent}
	return c.budget(ctx, "POST", key, "/move", to)
}

// FreezeBudget makes a budget and all below it take no usage and no reservation.
func (c *Client) FreezeBudget(ctx context.Context, key string) (Budget, error) {
	return c.budget(ctx, "POST", key, "/freeze", nil)
}

// UnfreezeBudget ends a freeze.
func (c *Client) UnfreezeBudget(ctx context.Context, key string) (Budget, error) {
	return c.budget(ctx, "POST", key, "/unfreeze", nil)
}

// ArchiveBudget ends a budget, and with it all below it, for good.
func (c *Client) ArchiveBudget(ctx context.Context, key string) (Budget, error) {
	return c.budget(ctx, "DELETE", key, "", nil)
}

func (c *Client) budget(
	ctx context.Context, method, key, act string, r any,
) (Budget, error) {
	return ask[Budget](ctx, c, method, prefix+"/budgets/"+url.PathEscape(key)+act, r)
}
