package cli

import (
	"io"
	"strconv"

	api "tollgate/sdk/go"
)

type poolsCommand struct {
	List         call[customerOutput, pools]           `cmd:"" call:"GET customers/{Customer}/pools" help:"List a customer's pools of credits."`
	Create       call[poolsCreate, pool]               `cmd:"" call:"POST customers/{Customer}/pools" help:"Create a pool for a customer."`
	Grant        call[poolsGrant, transaction]         `cmd:"" call:"POST pools/{Pool}/grants" help:"Add credits to a pool."`
	Deduct       call[poolsDeduct, transaction]        `cmd:"" call:"POST pools/{Pool}/deductions" help:"Deduct credits from a pool."`
	Grants       call[poolOutput, grants]              `cmd:"" call:"GET pools/{Pool}/grants" help:"List the grants that are not used up, in the order in which they burn."`
	Transactions call[poolsTransactions, transactions] `cmd:"" call:"GET pools/{Pool}/transactions" help:"List a pool's transactions, newest first."`
	Reverse      call[poolsReverse, transaction]       `cmd:"" call:"POST transactions/{Transaction}/reverse" help:"Reverse a grant or a deduction, once."`
	LowBalance   call[poolsLowBalance, none]           `cmd:"" call:"PUT pools/{Pool}/low-balance" says:"Pool {Pool} is low at {Amount}." help:"Set the balance at which the webhook credits.low is sent; 0: none."`
	TopUp        call[poolsTopUp, none]                `cmd:"" call:"PUT pools/{Pool}/top-up" says:"Pool {Pool} is topped up below {Below}." help:"Buy credits automatically when few are free, within a monthly cap."`
	ShowTopUp    call[poolOutput, topUp]               `cmd:"" call:"GET pools/{Pool}/top-up" help:"Show how a pool is topped up, and what it has bought."`
	StopTopUp    call[poolFlags, none]                 `cmd:"" call:"DELETE pools/{Pool}/top-up" says:"Pool {Pool} is no longer topped up." help:"Stop topping up a pool."`
	EndTopUp     call[poolsEndTopUp, none]             `cmd:"" call:"POST pools/{Pool}/top-up/end" says:"Purchase {Purchase} is over." help:"Close a purchase that was never paid."`
	Freeze       call[poolFlags, none]                 `cmd:"" call:"POST pools/{Pool}/freeze" says:"Pool {Pool} is frozen." help:"Refuse deductions and usage; grants are still accepted."`
	Unfreeze     call[poolFlags, none]                 `cmd:"" call:"POST pools/{Pool}/unfreeze" says:"Pool {Pool} is no longer frozen." help:"Accept deductions and usage again."`
	Archive      call[poolFlags, none]                 `cmd:"" call:"POST pools/{Pool}/archive" says:"Pool {Pool} is archived." help:"Archive a pool, for good."`
}

type pools []api.CreditPool

func (l pools) print(out io.Writer) error {
	t := NewTable(out, "ID", "NAME", "STATUS", "BALANCE", "HELD", "GRANTED", "CONSUMED", "EXPIRED",
		"REVERSED", "HARD LIMIT", "PRIORITY", "ROLLOVER")
	for i := range l {
		p := &l[i]
		rollover := p.RolloverPolicy
		if p.RolloverCap != "" {
			rollover += " at " + quantity(p.RolloverCap)
		}
		t.Row(p.ID, p.Name, p.Status, quantity(p.Balance)+" "+p.Denomination,
			either(quantity(p.Held), "–"), quantity(p.TotalGranted), quantity(p.TotalConsumed),
			quantity(p.TotalExpired), quantity(p.TotalReversed),
			strconv.FormatBool(p.HardLimit), strconv.Itoa(p.Priority), rollover)
	}
	return t.End()
}

type pool struct{ api.CreditPool }

func (p *pool) print(out io.Writer) error { return pools{p.CreditPool}.print(out) }

type customerFlags struct {
	inEnvironment `embed:""`
	Customer      string `arg:"" help:"The customer's externalClientCustomerId."`
}

type customerOutput struct {
	customerFlags `embed:""`
	OutputFlags   `embed:""`
}

type poolsCreate struct {
	customerOutput `embed:""`
	Name           string `json:"name" required:"" help:"The pool's name; plans and features name pools by it."`
	Denomination   string `json:"denomination,omitempty" help:"What is counted. Default: credits."`
	Currency       string `json:"currency,omitempty" help:"ISO 4217 code. Default: USD."`
	HardLimit      bool   `json:"hardLimit" help:"The balance never goes below zero."`
	Rollover       string `json:"rolloverPolicy,omitempty" enum:"NONE,FULL,CAPPED," default:"" help:"What stays at a period's end: NONE, FULL or CAPPED."`
	RolloverCap    string `json:"rolloverCap,omitempty" help:"Maximum carried over, with --rollover=CAPPED."`
	Priority       int64  `json:"priority" help:"Of several pools, the one with the lower number burns first."`
	LowBalance     string `json:"lowBalance,omitempty" help:"Balance at which the webhook credits.low is sent. Default: none."`
}

type poolFlags struct {
	inEnvironment `embed:""`
	Pool          string `arg:"" help:"The pool's id, from pools list."`
}

type poolOutput struct {
	poolFlags   `embed:""`
	OutputFlags `embed:""`
}

func printTransactions(out io.Writer, list []api.PoolTransaction, next string) error {
	t := NewTable(out, "ID", "AT", "KIND", "AMOUNT", "BALANCE", "ABOUT")
	for i := range list {
		x := &list[i]
		about := either(x.Note, x.FeatureKey, x.GrantType)
		if x.Reversed {
			about += " (reversed)"
		}
		t.Row(x.ID, moment(x.CreatedAt), x.Kind, quantity(x.Amount), quantity(x.Balance), about)
	}
	return older(out, t, next)
}

type transaction struct{ api.PoolTransaction }

func (x *transaction) print(out io.Writer) error {
	return printTransactions(out, []api.PoolTransaction{x.PoolTransaction}, "")
}

type poolsGrant struct {
	poolOutput `embed:""`
	Amount     string `arg:"" json:"amount" help:"How many credits."`
	Type       string `json:"type" default:"MANUAL" enum:"MANUAL,PURCHASED,PROMOTIONAL,REFUND,PLAN_INCLUDED,ROLLOVER" help:"Why they are granted: ${enum}."`
	Priority   int64  `json:"priority" help:"Of several grants, the one with the lower number burns first."`
	Expires    string `json:"expiresAt,omitempty" placeholder:"TIME" help:"RFC 3339 time at which what is left expires. Default: never."`
	Note       string `json:"note" help:"Why."`
}

type poolsDeduct struct {
	poolOutput `embed:""`
	Amount     string `arg:"" json:"amount" help:"How many credits."`
	Note       string `json:"note" help:"Why."`
}

type poolsLowBalance struct {
	poolFlags `embed:""`
	Amount    string `arg:"" json:"lowBalance" help:"The balance at which the pool is low; 0 sets none."`
}

type poolsTopUp struct {
	poolFlags  `embed:""`
	Below      string `json:"below" required:"" help:"Buy when less than this is free: neither used nor held by reservations."`
	Amount     string `json:"amount" required:"" help:"How many credits to buy."`
	Price      string `json:"price" required:"" help:"What they cost."`
	Currency   string `json:"currency,omitempty" help:"ISO 4217 code of the price. Default: USD."`
	MonthlyCap string `json:"monthlyCap" required:"" help:"What the purchases of a UTC month may come to."`
	Cooldown   int64  `json:"cooldownSeconds" default:"3600" help:"Seconds between two purchases."`
	Method     string `json:"paymentMethod" required:"" help:"The saved card: at Stripe cus_…/pm_…."`
	Expires    int64  `json:"expiresAfterDays,omitempty" help:"Days after which bought credits expire. Default: never."`
}

type poolsEndTopUp struct {
	poolFlags `embed:""`
	Purchase  string `arg:"" json:"purchase" help:"The purchase's id, from pools show-top-up."`
	NotPaid   bool   `json:"notPaid" required:"" help:"Confirm that the provider shows no payment for topup_ID."`
}

type topUp struct{ api.TopUp }

func (u *topUp) print(out io.Writer) error {
	t := NewTable(out, "STATE", "BELOW", "AMOUNT", "PRICE", "SPENT", "CAP", "PENDING", "REASON",
		"WAITS UNTIL", "FAILURE")
	pending := "no"
	if u.Pending {
		pending = u.Purchase
	}
	t.Row(u.State, quantity(u.Below), quantity(u.Amount), quantity(u.Price)+" "+u.Currency,
		quantity(u.SpentThisMonth), quantity(u.MonthlyCap), pending, u.Reason,
		moment(u.WaitsUntil), u.Failure)
	return t.End()
}

type grants []api.Grant

func (l grants) print(out io.Writer) error {
	t := NewTable(out, "ID", "TYPE", "REMAINING", "OF", "PRIORITY", "GRANTED", "EXPIRES")
	for _, g := range l {
		t.Row(g.ID, g.Type, quantity(g.Remaining), quantity(g.Amount), strconv.Itoa(g.Priority),
			moment(g.CreatedAt), either(moment(g.ExpiresAt), "never"))
	}
	return t.End()
}

type poolsTransactions struct {
	poolOutput `embed:""`
	Limit      int    `query:"limit" default:"100" help:"Maximum number of rows, up to 1,000."`
	Cursor     string `query:"cursor,omitempty" help:"Cursor printed by the previous page."`
}

type transactions struct{ api.PoolTransactionPage }

func (l *transactions) print(out io.Writer) error {
	return printTransactions(out, l.Transactions, l.NextCursor)
}

type poolsReverse struct {
	environmentOutput `embed:""`
	Transaction       string `arg:"" help:"The transaction's id, from pools transactions."`
	Note              string `json:"note" help:"Why."`
}
