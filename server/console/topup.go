package console

import (
	"net/url"
	"strconv"
	"strings"

	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	api "tollgate/sdk/go"
	"tollgate/server"
	"tollgate/server/billingview"
	"tollgate/server/console/page"
)

func (s *Console) topUpRows() []row {
	return []row{
		asking(poolPath+"/top-up", "set top-up", askTopUp, setTopUp),
		asked(form(poolPath+"/top-up/stop", "stop top-up", stopTopUp)),
		asked(form(poolPath+"/top-up/end", "end top-up", endTopUp)),
		form(poolPath+"/low-balance", "set low balance", setLowBalance),
	}
}

// topUp is how a pool is topped up; nil where it never was told to be.
func (v *visit) topUp(pool string) *api.TopUp {
	shown, fault := dataOf[api.TopUp](v, v.admin(v.adminCall("showTopUp", pool)))
	switch {
	case fault == nil:
		return &shown
	case fault.Code != billingview.FaultNoTopUp.Code && v.fault == nil:
		v.fault = fault
	}
	return nil
}

// charges reports whether this environment has a payment provider.
func (v *visit) charges() bool {
	return v.console.config.Machine.PaymentSettings(v.env).Provider != billing.ProviderNone
}

// seconds writes a number of seconds in the largest unit that it is a multiple of.
func seconds(n int) string {
	for _, unit := range []struct {
		seconds int
		name    string
	}{{86_400, "day"}, {3600, "hour"}, {60, "minute"}} {
		if count := n / unit.seconds; count > 0 && n%unit.seconds == 0 {
			if count == 1 {
				return "1 " + unit.name
			}
			return strconv.Itoa(count) + " " + unit.name + "s"
		}
	}
	return strconv.Itoa(n) + " seconds"
}

// topUpForm are the fields of the form that sets a top-up, and those of the API that they become.
var topUpForm = []struct{ form, api, name string }{
	{"below", "below", "Buy when available credits fall below"},
	{"credits", "amount", "Credits"},
	{"price", "price", "Price"},
	{"cap", "monthlyCap", "Monthly maximum"},
}

func setTopUp(v *visit) {
	id := string(v.x.Param(2))
	fields := map[string]any{
		"currency": strings.ToUpper(v.typed("currency")), "paymentMethod": v.typed("card"),
		"cooldownSeconds":  literal(v.fields.Get("cooldown")),
		"expiresAfterDays": literal(v.fields.Get("expires")),
	}
	for _, f := range topUpForm {
		fields[f.api] = literal(v.fields.Get(f.form))
	}
	v.finishTopUp(id, "top-up", server.Call{
		Operation: "setTopUp", Path: []string{id}, OnceKey: page.OnceKey(v.fields), Body: body(fields),
	})
}

func (v *visit) finishTopUp(id, done string, call server.Call) {
	v.finish(v.client(call).Fault, showPool, v.base()+"/pools/"+url.PathEscape(id), done)
}

// askTopUp shows what a top-up will cost at most, and whether it buys at once.
func askTopUp(v *visit) {
	id := string(v.x.Param(2))
	pool := need[api.CreditPool](v, v.admin, v.adminCall("showPool", id))
	now := v.topUp(id)
	if v.fails() {
		return
	}
	amounts := map[string]decimal.Decimal{}
	for _, f := range topUpForm {
		amount, err := decimal.Parse(v.typed(f.form))
		if err != nil || amount.Sign() <= 0 {
			v.wrong(f.form, "Enter a number above 0, such as 100")
			showPool(v)
			return
		}
		amounts[f.form] = amount
	}
	switch {
	case amounts["cap"].Less(amounts["price"]):
		v.wrong("cap", "Must be the price or more")
	case v.typed("card") == "":
		v.wrong("card", "Enter the provider's name of a saved card")
	}
	if v.wrongs != nil {
		showPool(v)
		return
	}
	currency := strings.ToUpper(v.typed("currency"))
	if currency == "" {
		currency = "USD"
	}
	money := func(name string) string { return page.Money(amounts[name].String(), currency) }
	credits := page.Amount(amounts["credits"].String()) + " " + pool.Denomination
	q := question{
		Title:  "Top " + pool.Name + " up automatically?",
		Button: "Buy " + credits + " whenever it is low",
		Back:   v.base() + "/pools/" + url.PathEscape(id),
		Facts: []fact{
			{"Buys", credits + " for " + money("price")},
			{"When less is free than", page.Amount(amounts["below"].String())},
			{"Balance now", balanceWords(&pool)},
			{"Monthly maximum (UTC)", money("cap")},
			{"Charges", v.typed("card")},
		},
		Notes: []string{"A payment that fails turns it off. What was bought this month counts on."},
	}
	if now != nil {
		q.Facts = append(q.Facts, fact{"Before", topUpWords(now)})
	}
	if free, ok := freeCredits(&pool); ok && free.Less(amounts["below"]) {
		q.Notes = append(q.Notes, "Less is free now: the first purchase, of "+
			money("price")+", is made at once, unless one is on its way or was made just before.")
	}
	v.ask(q)
}

// freeCredits is what no reservation holds of a pool's balance.
func freeCredits(p *api.CreditPool) (free decimal.Decimal, ok bool) {
	free, err := decimal.Parse(string(p.Available))
	return free, err == nil
}

// balanceWords are a pool's balance, and what reservations hold of it.
func balanceWords(p *api.CreditPool) string {
	if p.Held == "0" {
		return page.Amount(p.Balance)
	}
	return page.Amount(p.Balance) + ", " + page.Amount(p.Held) + " held by reservations"
}

// topUpWords says what a top-up does.
func topUpWords(t *api.TopUp) string {
	return page.Words(t.State) + ": with less than " + page.Amount(t.Below) + " free it buys " +
		page.Amount(t.Amount) + " for " + page.Money(t.Price, t.Currency) + ", for " +
		page.Money(t.MonthlyCap, t.Currency) + " a month at most"
}

func stopTopUp(v *visit) {
	id := string(v.x.Param(2))
	if v.sure() {
		v.finishTopUp(id, "no-top-up", server.Call{
			Operation: "stopTopUp", Path: []string{id}, OnceKey: page.OnceKey(v.fields),
		})
		return
	}
	pool := need[api.CreditPool](v, v.admin, v.adminCall("showPool", id))
	now := need[api.TopUp](v, v.admin, v.adminCall("showTopUp", id))
	if v.fails() {
		return
	}
	q := question{
		Title:  "Turn off the automatic top-up of " + pool.Name + "?",
		Button: "Turn the top-up off", Danger: true,
		Back:  v.base() + "/pools/" + url.PathEscape(id),
		Facts: []fact{{"Now", topUpWords(&now)}, {"Balance now", page.Amount(pool.Balance)}},
		Notes: []string{"Nothing is bought any more. What was bought stays."},
	}
	if now.Pending {
		q.Notes = append(q.Notes, "A purchase is on its way: it goes on, and its credits come.")
	}
	v.ask(q)
}

// endTopUp ends the purchase that the form names as one that was not paid.
func endTopUp(v *visit) {
	id, purchase := string(v.x.Param(2)), v.typed("purchase")
	if v.sure() {
		reply := v.send("endTopUp", map[string]any{"purchase": purchase, "notPaid": true}, id)
		v.finish(reply.Fault, showPool, v.base()+"/pools/"+url.PathEscape(id),
			"top-up-ended")
		return
	}
	pool := need[api.CreditPool](v, v.admin, v.adminCall("showPool", id))
	if v.fails() {
		return
	}
	v.ask(question{
		Title:  "Was this purchase of " + pool.Name + " not paid?",
		Button: "End the purchase: it was not paid", Danger: true,
		Back:  v.base() + "/pools/" + url.PathEscape(id),
		Facts: []fact{{"At the provider", "topup_" + purchase}},
		Notes: []string{
			"Look at the payment provider before. If it was paid, leave it, or grant the credits yourself.",
			"Ending it turns the automatic top-up off.",
		},
	})
}

// setLowBalance sets the balance at which credits.low is told.
func setLowBalance(v *visit) {
	id := string(v.x.Param(2))
	low := literal(v.fields.Get("lowBalance"))
	if low == nil {
		low = literal("0")
	}
	reply := v.send("setLowBalance", map[string]any{"lowBalance": low}, id)
	v.finish(reply.Fault, showPool, v.base()+"/pools/"+url.PathEscape(id), "low-balance")
}
