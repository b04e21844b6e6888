package cli

import (
	"encoding/json"
	"io"
	"strconv"
	"strings"

	api "tollgate/sdk/go"
)

// workspacesCommand are the tools by which an operator acts for the people who own workspaces.
type workspacesCommand struct {
	List    call[workspacesList, tenants]   `cmd:"" call:"GET /workspaces" help:"List workspaces, newest first."`
	Show    call[workspaceFlags, tenant]    `cmd:"" call:"GET /workspaces/{Workspace}" help:"Show a workspace's money and purchases."`
	Acts    call[workspacesActs, acts]      `cmd:"" call:"GET /workspaces/{Workspace}/acts" help:"List what operators did for a workspace's owner."`
	Claim   call[workspacesClaim, tenant]   `cmd:"" call:"POST /workspaces/{Workspace}/claim" help:"Give an unclaimed workspace to its owner."`
	Approve call[workspacesApprove, tenant] `cmd:"" call:"POST /workspaces/{Workspace}/purchases/{Purchase}/approve" help:"Approve a purchase for the owner."`
	Deny    call[purchaseFlags, tenant]     `cmd:"" call:"POST /workspaces/{Workspace}/purchases/{Purchase}/deny" help:"Deny a purchase for the owner."`
	Refund  call[purchaseFlags, tenant]     `cmd:"" call:"POST /workspaces/{Workspace}/purchases/{Purchase}/refund" help:"Ask the payment provider again for a refund that it refused."`
	Confirm call[alertsFlags, tenant]       `cmd:"" call:"POST /workspaces/{Workspace}/flows/{Flow}/confirm-signup" help:"Confirm for the owner that an agent may sign up at a flow's product."`
	Cap     call[workspacesCap, tenant]     `cmd:"" call:"POST /workspaces/{Workspace}/billing/cap" help:"Set the monthly spending cap for the owner."`
	Pause   call[workspaceFlags, tenant]    `cmd:"" call:"POST /workspaces/{Workspace}/billing/pause" with:"paused=true" help:"Require the owner for every purchase."`
	Unpause call[workspaceFlags, tenant]    `cmd:"" call:"POST /workspaces/{Workspace}/billing/pause" with:"paused=false" help:"Let the saved card pay again, within the cap."`
	Credits call[workspacesCredits, tenant] `cmd:"" call:"POST /workspaces/{Workspace}/credits" help:"Grant credits."`
	Alerts  alertsCommand                   `cmd:"" help:"Set a flow's alerts for the owner, send a test, replace the signing secret."`
	Remove  call[workspaceFlags, removed]   `cmd:"" call:"DELETE /workspaces/{Workspace}" help:"Remove an unclaimed workspace."`
}

// tenant is a workspace as the operations listener shows it.
type tenant struct{ api.Tenant }

// cents is an amount of US cents in dollars.
func cents(n int) string {
	whole, rest := strconv.Itoa(n/100), strconv.Itoa(100+n%100)
	return money(json.Number(whole+"."+rest[1:]), "USD")
}

func (v *tenant) print(out io.Writer) error {
	t := NewTable(out)
	t.Row("Workspace", v.ID)
	t.Row("Label", v.Label)
	t.Row("Owner", either(v.Owner, "unclaimed"))
	t.Row("Bought runs left", strconv.Itoa(v.RunsLeft))
	t.Row("Credits", strconv.Itoa(v.Credits))
	t.Row("Spent this month", cents(v.SpentCents)+" of "+cents(v.CapCents))
	t.Row("Being charged", cents(v.ChargingCents))
	t.Row("Cap approved", strconv.FormatBool(v.CapApproved))
	t.Row("Purchases paused", strconv.FormatBool(v.Paused))
	if err := t.End(); err != nil || len(v.Purchases) == 0 {
		return err
	}
	t = NewTable(out, "PURCHASE", "STATUS", "RUNS", "PRICE", "WHY", "REFUND", "MADE", "PAYMENT PAGE")
	for i := range v.Purchases {
		p := &v.Purchases[i]
		refund := "–"
		switch {
		case p.RefundDue:
			refund = "due"
			for _, r := range p.Returns {
				if r.Refused != "" {
					refund = "refused: " + r.Refused
				}
			}
		case !p.RefundedAt.IsZero():
			refund = moment(p.RefundedAt)
		}
		t.Row(p.ID, p.Status, strconv.Itoa(p.Runs), cents(p.Cents), either(p.Reason, "–"), refund,
			moment(p.CreatedAt), p.URL)
	}
	return t.End()
}

type workspaceFlags struct {
	AdminFlags  `embed:""`
	OutputFlags `embed:""`
	Workspace   string `arg:"" help:"The workspace's id, ws_…, from workspaces list."`
}

type workspacesList struct {
	AdminFlags  `embed:""`
	OutputFlags `embed:""`
	Find        string `query:"find,omitempty" help:"The one with this id, or that has the run, flow, purchase or issue with it."`
	Unclaimed   bool   `query:"unclaimed,omitempty" help:"The unclaimed ones, with where they come from and what they hold."`
	Limit       int    `query:"limit" default:"100" help:"Maximum number of rows, up to 100."`
	Cursor      string `query:"cursor,omitempty" help:"Cursor printed by the previous page."`
}

// tenants is a page of workspaces. Held is there where they are the unclaimed ones.
type tenants struct{ api.Tenants }

func (p *tenants) print(out io.Writer) error {
	if p.Held != nil {
		return p.printUnclaimed(out)
	}
	t := NewTable(out, "WORKSPACE", "LABEL", "OWNER", "RUNS LEFT", "WAITING PURCHASE", "MADE")
	for _, w := range p.Workspaces {
		t.Row(w.ID, w.Label, either(w.Owner, "–"), strconv.Itoa(w.RunsLeft), either(w.Purchase, "–"),
			moment(w.CreatedAt))
	}
	return older(out, t, p.NextCursor)
}

// printUnclaimed prints unclaimed workspaces, so that many of one network are seen.
func (p *tenants) printUnclaimed(out io.Writer) error {
	t := NewTable(out, "WORKSPACE", "LABEL", "NETWORK", "BYTES", "MADE", "USED", "ENDS")
	for _, w := range p.Workspaces {
		t.Row(w.ID, w.Label, either(w.Network, "–"), strconv.Itoa(w.Bytes), moment(w.CreatedAt),
			moment(w.UsedAt), either(moment(w.EndsAt), "–"))
	}
	if err := older(out, t, p.NextCursor); err != nil {
		return err
	}
	return Say(out, "All unclaimed workspaces hold %s of %s.", Size(int64(p.Held.Bytes)),
		Size(int64(p.Held.LimitBytes)))
}

// older ends a table whose list may go on.
func older(out io.Writer, t *table, next string) error {
	if err := t.End(); err != nil || next == "" {
		return err
	}
	return Say(out, "There are older ones: --cursor %s", next)
}

type workspacesActs struct {
	workspaceFlags `embed:""`
	Limit          int    `query:"limit" default:"100" help:"Maximum number of rows, up to 100."`
	Cursor         string `query:"cursor,omitempty" help:"Cursor printed by the previous page."`
}

// acts are what operators did for a workspace's owner.
type acts struct{ api.Acts }

func (l *acts) print(out io.Writer) error {
	t := NewTable(out, "AT", "WHO", "WHAT", "SUBJECT", "CHANGE")
	for _, a := range l.Acts.Acts {
		var changed []string
		for _, x := range a.Changes {
			changed = append(changed, strings.Join(strings.Fields(
				x.Name+" "+x.Before+" → "+x.After), " "))
		}
		if a.Note != "" {
			changed = append(changed, strconv.Quote(a.Note))
		}
		t.Row(moment(a.At), a.Actor, a.Action, either(a.Subject, "–"), strings.Join(changed, ", "))
	}
	return older(out, t, l.NextCursor)
}

type workspacesClaim struct {
	workspaceFlags `embed:""`
	Owner          string `arg:"" json:"owner" help:"The owner's e-mail address."`
}

// purchaseFlags name a purchase of a workspace.
type purchaseFlags struct {
	workspaceFlags `embed:""`
	Purchase       string `arg:"" help:"The purchase's id, pur_…, from workspaces show."`
}

type workspacesApprove struct {
	purchaseFlags `embed:""`
	Owner         string `json:"owner,omitempty" help:"The owner's e-mail address, for an unclaimed workspace."`
}

type workspacesCap struct {
	workspaceFlags `embed:""`
	Cents          uint32 `arg:"" json:"capCents" help:"The cap in US cents: 5000 is 50 dollars a month."`
}

// workspacesCredits are about a workspace that may be named by its owner's e-mail address.
type workspacesCredits struct {
	workspaceFlags `embed:""`
	Amount         uint64 `arg:"" json:"amount" help:"How many."`
	Note           string `json:"note" help:"Why."`
}

type removed struct {
	ID string `json:"id"`
	At string `json:"removedAt"`
}

func (v *removed) print(out io.Writer) error {
	return Say(out, "%s was removed at %s. Its keys no longer work.", v.ID, instant(v.At))
}
