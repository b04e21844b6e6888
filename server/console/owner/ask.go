package owner

import (
	"github.com/go-json-experiment/json"

	"tollgate/server"
	api "tollgate/server/workspace"
)

// ask calls a row of the workspace API in this person's name, and decodes its answer into data. The
// row checks and refuses as it does for an agent, and its message is shown.
func (v *visit) ask(operation, id string, body, data any) *server.Fault {
	c, err := server.Call{Operation: operation}, error(nil)
	if body != nil {
		if c.Body, err = json.Marshal(body, json.Deterministic(true)); err != nil {
			v.config.Log.Error("a request cannot be written", "operation", operation, "error", err)
			return server.FaultInternal
		}
	}
	if id != "" {
		c.Path = []string{id}
	}
	reply := v.config.Workspaces.Ask(v.decision(v.who.Workspace), c)
	if data != nil && (reply.Fault == nil || reply.Fault.Code == "payment_required") {
		err = json.Unmarshal(reply.Body, data, json.MatchCaseInsensitiveNames(true))
	}
	if err != nil {
		v.config.Log.Error("an answer cannot be read", "operation", operation, "error", err)
		return server.FaultInternal
	}
	return reply.Fault
}

// started is what starting a run, or buying runs, answers.
type started struct {
	Run      struct{ ID string }
	Purchase struct{ ID string }
}

// went ends a form that starts or buys: at the run or at the purchase that it made.
func (v *visit) went(fault *server.Fault, made *started, again func(*visit), what string) {
	run, isRun := api.NounRun.Parse(made.Run.ID)
	purchase, isPurchase := api.NounPurchase.Parse(made.Purchase.ID)
	switch {
	case isPurchase && (fault == nil || fault.Code == "payment_required"):
		v.site.Redirect(v.x, Root+"/purchases/"+api.NounPurchase.Text(purchase))
	case fault == nil && isRun:
		v.finish(nil, nil, Root+"/runs/"+api.NounRun.Text(run), what)
	default:
		v.problem(fault)
		again(v)
	}
}
