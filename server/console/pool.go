package console

import (
	"net/url"
	"strings"

	"tollgate/engine"
	"tollgate/engine/decimal"
	api "tollgate/sdk/go"
	"tollgate/server"
	"tollgate/server/console/page"
)

const poolPath = "/accounts/{account}/{environment}/pools/{pool}"

func (s *Console) poolRows() []row {
	rows := []row{look(poolPath, "pool", showPool)}
	for _, what := range []string{"grantCredits", "deductCredits", "freezePool", "unfreezePool"} {
		asks := what == "grantCredits" || what == "deductCredits"
		rows = append(rows, row{
			method: "POST", path: poolPath + "/" + what, name: what, reach: reachEnvironment, asks: asks,
			show: func(v *visit) {
				id, word := string(v.x.Param(2)), what
				var fields map[string]any
				if asks {
					if !v.sure() {
						askCredits(v, what)
						return
					}
					word = "credits"
					fields = map[string]any{
						"amount": literal(v.fields.Get("amount")), "note": v.fields.Get("note"),
					}
				}
				reply := v.send(what, fields, id)
				v.finish(reply.Fault, showPool,
					v.base()+"/pools/"+url.PathEscape(id), word)
			},
		})
	}
	return rows
}

// askCredits shows the balance after a grant or a deduction.
func askCredits(v *visit, what string) {
	id := string(v.x.Param(2))
	shown := need[api.CreditPool](v, v.admin, v.adminCall("showPool", id))
	amount, err := decimal.Parse(strings.TrimSpace(v.fields.Get("amount")))
	if err != nil || amount.Sign() <= 0 {
		v.wrong("amount", "Enter a number above 0, such as 1200")
		showPool(v)
		return
	}
	q := question{
		Title: "Grant credits to " + shown.Name + "?", Button: "Grant " + page.Amount(amount.String()),
		Back: v.base() + "/pools/" + url.PathEscape(id),
	}
	if what == "deductCredits" {
		q.Title, q.Button, q.Danger = "Deduct credits from "+shown.Name+"?",
			"Deduct "+page.Amount(amount.String()), true
	}
	q.Facts = []fact{
		{"Amount", page.Amount(amount.String())}, {"Balance now", page.Amount(shown.Balance)},
	}
	if what == "deductCredits" {
		after, outcome := previewed(v, id, amount, v.console.config.Machine.PreviewDeduction)
		if outcome != engine.OutcomeDone && v.fault == nil {
			refuseDeduction(v, outcome)
			showPool(v)
			return
		}
		q.Facts = append(q.Facts, fact{"Balance afterwards", page.Amount(after.String())})
		v.ask(q)
		return
	}
	seen, outcome := previewed(v, id, amount, v.console.config.Machine.PreviewGrant)
	if outcome != engine.OutcomeDone && v.fault == nil {
		refuse(v, server.FaultOf(outcome), showPool)
		return
	}
	q.Facts = append(q.Facts, fact{"Balance afterwards", page.Amount(seen.Balance.String())})
	if len(seen.Opens) > 0 {
		q.Facts = append(q.Facts, fact{"Unblocked features", namesOf(seen.Opens)})
	}
	if shown.Status == "FROZEN" {
		q.Notes = []string{"The pool is frozen: usage takes nothing from it until it is unfrozen."}
	}
	v.ask(q)
}

// namesOf are the first of some names, and how many others there are.
func namesOf(names []string) string {
	const most = 10
	text := strings.Join(names[:min(len(names), most)], ", ")
	if more := len(names) - most; more > 0 {
		text += " and " + page.Amount(more) + " more"
	}
	return text
}

// refuseDeduction says why a deduction is not taken: at the amount, where another one might be.
func refuseDeduction(v *visit, outcome engine.Outcome) {
	fault := server.FaultOf(outcome)
	switch outcome {
	case engine.OutcomeCreditsEmpty:
		v.wrong("amount", "The pool has a hard limit, and less than this that no reservation holds")
	case engine.OutcomePoolFrozen, engine.OutcomePoolArchived:
		v.problem(fault)
	default:
		v.wrong("amount", strings.TrimSuffix(fault.Message, "."))
	}
}

// previewed asks the engine what an amount does to a pool, and whether it is taken.
func previewed[T any](v *visit, pool string, amount decimal.Decimal,
	preview func(env uint32, pool [16]byte, amount decimal.Decimal, now int64) (T, engine.Outcome),
) (seen T, outcome engine.Outcome) {
	id, known := server.ParseUUID([]byte(pool))
	if !known {
		return seen, engine.OutcomePoolUnknown
	}
	return preview(v.env, id, amount, v.stamp())
}

type poolData struct {
	Base         string
	Manage       bool
	Pool         api.CreditPool
	TopUp        *api.TopUp // nil where it never had one
	Cooldown     string
	Charges      bool // there is a payment provider
	Transactions []api.PoolTransaction
	CSV          string
	Pager        page.Pager
	Fields       url.Values
}

// showPool is a pool of credits with all that moved it.
func showPool(v *visit) {
	id := string(v.x.Param(2))
	shown, list := withList[api.CreditPool, api.PoolTransactionPage](v,
		v.adminCall("showPool", id), v.adminCall("listTransactions", id))
	data := poolData{
		Base: v.base() + "/pools/" + url.PathEscape(id), Manage: v.manage, Pool: shown,
		Transactions: list.Transactions, Fields: v.fields, Charges: v.charges(),
	}
	if data.TopUp = v.topUp(id); data.TopUp != nil {
		data.Cooldown = seconds(data.TopUp.CooldownSeconds)
	}
	data.CSV = data.Base + "/transactions.csv"
	data.Pager = v.pages(data.Base, list.NextCursor, nil).Of(len(list.Transactions), "transaction")
	p := v.environmentPage("pool", "Customers", shown.Name,
		"A pool of credits, and every transaction that moved it.", data)
	v.show(v.below(p, "Customers", v.customersURL()))
}

func createPool(v *visit) {
	v.customerForm(v.send("createPool", map[string]any{
		"name": v.fields.Get("name"), "denomination": v.fields.Get("denomination"),
		"hardLimit": v.fields.Get("hard") == "true",
	}, string(v.x.Param(2))), "pool")
}

// endpointSecret is the notice that shows a webhook endpoint's signing secret.
func endpointSecret(title, secret string) *page.Notice {
	detail := "Copy the signing secret now: no other page shows it."
	if secret == "" { // the same form, sent twice
		detail = "The page before this one has shown its signing secret."
	}
	return &page.Notice{Tone: page.Done, Title: title, Secret: secret, Detail: detail}
}
