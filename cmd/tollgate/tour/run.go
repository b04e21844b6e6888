package tour

import (
	"context"
	"crypto/rand"
	"fmt"
)

// watch starts a run of the flow and watches it until it has ended.
func (t *tour) watch(ctx context.Context) (a answer, err error) {
	quote, err := t.quote(ctx)
	if err == nil {
		err = want(quote.at("quote", "executionAvailable") == true, "a flow that can run", quote)
	}
	if err != nil {
		return nil, err
	}
	begun, err := t.start(ctx, 202, "tour-"+rand.Text(), quote)
	if err != nil {
		return nil, err
	}
	t.step("Watch it.")
	told := 0
	run := request{method: "GET", path: "/v1/runs/" + begun.text("run", "id")}
	err = t.poll(ctx, run, "run", func(now answer) (bool, error) {
		a = now
		events, _ := now.at("run", "events").([]any)
		for ; told < len(events); told++ {
			if event, ok := events[told].(map[string]any); ok {
				t.print("  … %s\n", answer(event).text("text"))
			}
		}
		switch now.text("run", "status") {
		case "completed", "failed", "cancelled", "waiting_for_human":
			return true, nil
		}
		return false, nil
	})
	return a, err
}

// runAgent runs the flow with its agent: five calls of the server's own decide that it passed.
func (t *tour) runAgent(ctx context.Context) error {
	t.step("Start again, with a fresh quote.")
	a, err := t.watch(ctx)
	if err != nil {
		return err
	}
	t.print("  The server called the verification itself:\n")
	calls, _ := a.at("run", "verification", "calls").([]any)
	order := []string{"none", "wrong", "wrong", "real", "none"}
	right := len(calls) == len(order)
	for i, one := range calls {
		call, _ := one.(map[string]any)
		t.print("    key %-6v → %v, refused %v\n", call["case"], call["status"], call["refused"])
		right = right && call["case"] == order[i] && call["refused"] == (call["case"] != "real")
	}
	return want(right && a.text("run", "outcome") == "passed" &&
		a.text("run", "verification", "proof") == "run" &&
		a.text("run", "charge", "state") == "committed", "a run that passed by five calls", a)
}

// runNothing runs the same flow with the agent that does nothing, which must not pass nor cost.
func (t *tour) runNothing(ctx context.Context) error {
	t.step("The same flow with the agent that does nothing: it must not pass, and costs nothing.")
	_, err := t.call(ctx, 200, request{
		method: "PATCH", path: "/v1/flows/" + t.flow, body: `{"agent":"nop"}`,
	})
	if err != nil {
		return err
	}
	a, err := t.watch(ctx)
	if err != nil {
		return err
	}
	return want(a.text("run", "outcome") == "inconclusive" &&
		a.text("run", "reasonCode") == "no_credential" &&
		a.text("run", "charge", "kind") == "none", "a run that proved nothing, and costs nothing", a)
}

// account reads what was used: every run and every cent is accounted for.
func (t *tour) account(ctx context.Context) error {
	t.step("What was used: the run that passed; the other one cost nothing, the bought one is left.")
	r := request{method: "GET", path: "/v1/account", quiet: true}
	a, err := t.call(ctx, 200, r)
	if err != nil {
		return err
	}
	usage := func(name string) int {
		n, _ := a.at("billing", "usage", name).(float64)
		return int(n)
	}
	t.print("$ %s\n", t.line(&r))
	text := "  200"
	for _, name := range []string{
		"runsUsed", "freeRunsUsed", "paidRunsUsed", "runsReturned", "spentCents", "capCents",
	} {
		text += fmt.Sprintf(" %s %d,", name, usage(name))
	}
	t.print("%s\n", text[:len(text)-1])
	return want(usage("freeRunsUsed") == 1 && usage("paidRunsUsed") == 0 &&
		usage("runsReturned") == 0 && usage("runsUsed") == 1 && usage("spentCents") == 500,
		"a free run used, none returned, 500 cents spent", a)
}
