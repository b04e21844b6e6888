package tour

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"slices"

	api "tollgate/sdk/go"
)

// watch starts a run of the flow and watches it until it has ended.
func (t *tour) watch(ctx context.Context) (run api.Run, err error) {
	quote, err := t.quote(ctx)
	if err == nil {
		err = want(quote.ExecutionAvailable, "a flow that can run", quote)
	}
	if err != nil {
		return run, err
	}
	begun, err := t.start(ctx, 202, "tour-"+rand.Text(), &quote)
	if err != nil {
		return run, err
	}
	t.step("Watch it.")
	told := 0
	watched := request{method: "GET", path: "/v1/runs/" + begun.Run.ID}
	return run, t.poll(ctx, watched, "run", func(data json.RawMessage) (string, bool, error) {
		run = api.Run{}
		err := json.Unmarshal(data, &run)
		for ; told < len(run.Events); told++ {
			t.print("  … %s\n", run.Events[told].Text)
		}
		ends := []string{"completed", "failed", "cancelled", "waiting_for_human"}
		return run.Status, slices.Contains(ends, run.Status), err
	})
}

// runAgent runs the flow with its agent: five calls of the server's own decide that it passed.
func (t *tour) runAgent(ctx context.Context) error {
	t.step("Start again, with a fresh quote.")
	run, err := t.watch(ctx)
	if err != nil {
		return err
	}
	t.print("  The server called the verification itself:\n")
	calls, order := run.Verification.Calls, []string{"none", "wrong", "wrong", "real", "none"}
	right := len(calls) == len(order)
	for i, call := range calls {
		t.print("    key %-6v → %v, refused %v\n", call.Case, call.Status, call.Refused)
		right = right && call.Case == order[i] && call.Refused == (call.Case != "real")
	}
	return want(right && run.Outcome == "passed" && run.Verification.Proof == "run" &&
		run.Charge.State == "committed", "a run that passed by five calls", run)
}

// runNothing runs the same flow with the agent that does nothing, which must not pass nor cost.
func (t *tour) runNothing(ctx context.Context) error {
	t.step("The same flow with the agent that does nothing: it must not pass, and costs nothing.")
	var changed struct{ Flow api.Flow }
	err := t.call(ctx, 200, request{
		method: "PATCH", path: "/v1/flows/" + t.flow,
		body: written(api.FlowChange{Agent: api.Set("nop")}),
	}, &changed)
	if err != nil {
		return err
	}
	run, err := t.watch(ctx)
	if err != nil {
		return err
	}
	return want(run.Outcome == "inconclusive" && run.ReasonCode == "no_credential" &&
		run.Charge.Kind == "none", "a run that proved nothing, and costs nothing", run)
}

// account reads what was used: every run and every cent is accounted for.
func (t *tour) account(ctx context.Context) error {
	t.step("What was used: the run that passed; the other one cost nothing, the bought one is left.")
	r := request{method: "GET", path: "/v1/account", quiet: true}
	var a api.WorkspaceAccount
	if err := t.call(ctx, 200, r, &a); err != nil {
		return err
	}
	u := a.Billing.Usage
	if err := want(u != nil, "an account with its usage", a); err != nil {
		return err
	}
	t.print("$ %s\n  200 runsUsed %d, freeRunsUsed %d, paidRunsUsed %d, runsReturned %d, "+
		"spentCents %d, capCents %d\n", t.line(&r), u.RunsUsed, u.FreeRunsUsed, u.PaidRunsUsed,
		u.RunsReturned, u.SpentCents, u.CapCents)
	return want(u.FreeRunsUsed == 1 && u.PaidRunsUsed == 0 && u.RunsReturned == 0 &&
		u.RunsUsed == 1 && u.SpentCents == 500,
		"a free run used, none returned, 500 cents spent", a)
}
