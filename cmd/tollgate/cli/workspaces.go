package cli

import (
	"context"
	"encoding/json"
	"io"
	"net/url"
	"strconv"
	"strings"
)

// workspacesCommand are the tools by which an operator acts for the people who own workspaces.
type workspacesCommand struct {
	List    workspacesListCommand    `cmd:"" help:"List workspaces, newest first."`
	Show    workspacesShowCommand    `cmd:"" help:"Show a workspace's money and purchases."`
	Acts    workspacesActsCommand    `cmd:"" help:"List what operators did for a workspace's owner."`
	Claim   workspacesClaimCommand   `cmd:"" help:"Give an unclaimed workspace to its owner."`
	Approve workspacesApproveCommand `cmd:"" help:"Approve a purchase for the owner."`
	Deny    workspacesDenyCommand    `cmd:"" help:"Deny a purchase for the owner."`
	Refund  workspacesRefundCommand  `cmd:"" help:"Ask the payment provider again for what it refused to send back."`
	Confirm workspacesConfirmCommand `cmd:"" help:"Confirm for the owner that an agent may sign up at a flow's product."`
	Cap     workspacesCapCommand     `cmd:"" help:"Set the monthly spending cap for the owner."`
	Pause   workspacesPauseCommand   `cmd:"" help:"Make every purchase need the owner."`
	Unpause workspacesUnpauseCommand `cmd:"" help:"Let the saved card pay again, within the cap."`
	Credits workspacesCreditsCommand `cmd:"" help:"Grant credits."`
	Alerts  alertsCommand            `cmd:"" help:"Set a flow's alerts for the owner, send a test, replace the signing secret."`
	Remove  workspacesRemoveCommand  `cmd:"" help:"Remove a workspace that nobody has claimed."`
}

const workspacesPath = "/api/v1/admin/workspaces"

// tenant is a workspace as the operations listener shows it.
type tenant struct {
	ID          string `json:"id"`
	Label       string `json:"label"`
	Owner       string `json:"owner"`
	Credits     uint64 `json:"credits"`
	RunsLeft    uint64 `json:"runsLeft"`
	Spent       uint64 `json:"spentCents"`
	Charging    uint64 `json:"chargingCents"`
	Cap         uint64 `json:"capCents"`
	CapApproved bool   `json:"capApproved"`
	Paused      bool   `json:"paused"`
	Purchases   []struct {
		ID         string `json:"id"`
		Status     string `json:"status"`
		Runs       uint64 `json:"runs"`
		Cents      uint64 `json:"cents"`
		Reason     string `json:"reason"`
		URL        string `json:"url"`
		RefundDue  bool   `json:"refundDue"`
		RefundedAt string `json:"refundedAt"`
		Returns    []struct {
			Refused string `json:"refused"`
		} `json:"returns"`
		Created string `json:"createdAt"`
	} `json:"purchases"`
}

// cents is an amount of US cents in dollars.
func cents(n uint64) string {
	whole, rest := strconv.FormatUint(n/100, 10), strconv.FormatUint(100+n%100, 10)
	return money(json.Number(whole+"."+rest[1:]), "USD")
}

func (v *tenant) print(out io.Writer) error {
	t := NewTable(out)
	t.Row("Workspace", v.ID)
	t.Row("Label", v.Label)
	t.Row("Owner", either(v.Owner, "unclaimed"))
	t.Row("Bought runs left", strconv.FormatUint(v.RunsLeft, 10))
	t.Row("Credits", strconv.FormatUint(v.Credits, 10))
	t.Row("Spent this month", cents(v.Spent)+" of "+cents(v.Cap))
	t.Row("Being charged", cents(v.Charging))
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
		case p.RefundedAt != "":
			refund = instant(p.RefundedAt)
		}
		t.Row(p.ID, p.Status, strconv.FormatUint(p.Runs, 10), cents(p.Cents), either(p.Reason, "–"),
			refund, instant(p.Created), p.URL)
	}
	return t.End()
}

// workspaceFlags name a workspace.
type workspaceFlags struct {
	AdminFlags  `embed:""`
	OutputFlags `embed:""`
	Workspace   string `arg:"" help:"The workspace's id, ws_…, from workspaces list."`
}

func (f *workspaceFlags) workspacePath() string {
	return workspacesPath + "/" + url.PathEscape(f.Workspace)
}

// act uses a tool and shows the workspace as it is then.
func (f *workspaceFlags) act(ctx context.Context, out io.Writer, tool string, body any) error {
	var v tenant
	data, err := f.send(ctx, "POST", f.workspacePath()+tool, body, &v)
	return f.answer(out, data, err, func() error { return v.print(out) })
}

type workspacesListCommand struct {
	AdminFlags  `embed:""`
	OutputFlags `embed:""`
	Unclaimed   bool   `help:"Those that nobody has claimed, with where they come from and what they hold."`
	Limit       int    `default:"100" help:"How many, at most 100."`
	Cursor      string `help:"Cursor printed by the previous page."`
}

// tenantPage is a page of workspaces.
type tenantPage struct {
	Workspaces []struct {
		ID       string `json:"id"`
		Label    string `json:"label"`
		Owner    string `json:"owner"`
		RunsLeft uint64 `json:"runsLeft"`
		Purchase string `json:"purchase"`
		Created  string `json:"createdAt"`
		Network  string `json:"network"`
		Bytes    uint64 `json:"bytes"`
		Used     string `json:"usedAt"`
		Ends     string `json:"endsAt"`
	} `json:"workspaces"`
	Held struct {
		Bytes uint64 `json:"bytes"`
		Limit uint64 `json:"limitBytes"`
	} `json:"held"`
	Next string `json:"nextCursor"`
}

// Run lists workspaces.
func (c *workspacesListCommand) Run(ctx context.Context, out io.Writer) error {
	var page tenantPage
	path := workspacesPath + paged(c.Limit, c.Cursor)
	if c.Unclaimed {
		path += "&unclaimed=true"
	}
	data, err := c.read(ctx, path, &page)
	return c.answer(out, data, err, func() error {
		if c.Unclaimed {
			return page.printUnclaimed(out)
		}
		t := NewTable(out, "WORKSPACE", "LABEL", "OWNER", "RUNS LEFT", "WAITING PURCHASE", "MADE")
		for _, w := range page.Workspaces {
			t.Row(w.ID, w.Label, either(w.Owner, "–"), strconv.FormatUint(w.RunsLeft, 10),
				either(w.Purchase, "–"), instant(w.Created))
		}
		return older(out, t, page.Next)
	})
}

// printUnclaimed prints workspaces that nobody has claimed, so that many of one network are seen.
func (p *tenantPage) printUnclaimed(out io.Writer) error {
	t := NewTable(out, "WORKSPACE", "LABEL", "NETWORK", "BYTES", "MADE", "USED", "ENDS")
	for _, w := range p.Workspaces {
		ends := "–"
		if w.Ends != "" {
			ends = instant(w.Ends)
		}
		t.Row(w.ID, w.Label, either(w.Network, "–"), strconv.FormatUint(w.Bytes, 10),
			instant(w.Created), instant(w.Used), ends)
	}
	if err := older(out, t, p.Next); err != nil {
		return err
	}
	return Say(out, "All unclaimed workspaces hold %s of %s.", Size(int64(p.Held.Bytes)),
		Size(int64(p.Held.Limit)))
}

func paged(limit int, cursor string) string {
	query := url.Values{"limit": {strconv.Itoa(limit)}}
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	return "?" + query.Encode()
}

// older ends a table whose list may go on.
func older(out io.Writer, t *table, next string) error {
	if err := t.End(); err != nil || next == "" {
		return err
	}
	return Say(out, "There are older ones: --cursor %s", next)
}

type workspacesShowCommand struct {
	workspaceFlags `embed:""`
}

// Run shows a workspace.
func (c *workspacesShowCommand) Run(ctx context.Context, out io.Writer) error {
	var v tenant
	data, err := c.read(ctx, c.workspacePath(), &v)
	return c.answer(out, data, err, func() error { return v.print(out) })
}

type workspacesActsCommand struct {
	workspaceFlags `embed:""`
	Limit          int    `default:"100" help:"How many, at most 100."`
	Cursor         string `help:"Cursor printed by the previous page."`
}

// Run lists what operators did.
func (c *workspacesActsCommand) Run(ctx context.Context, out io.Writer) error {
	var page struct {
		Acts []struct {
			At      string `json:"at"`
			Actor   string `json:"actor"`
			Action  string `json:"action"`
			Subject string `json:"subject"`
			Note    string `json:"note"`
			Changes []struct {
				Name   string `json:"name"`
				Before string `json:"before"`
				After  string `json:"after"`
			} `json:"changes"`
		} `json:"acts"`
		Next string `json:"nextCursor"`
	}
	data, err := c.read(ctx, c.workspacePath()+"/acts"+paged(c.Limit, c.Cursor), &page)
	return c.answer(out, data, err, func() error {
		t := NewTable(out, "AT", "WHO", "WHAT", "SUBJECT", "CHANGE")
		for _, a := range page.Acts {
			var changed []string
			for _, x := range a.Changes {
				changed = append(changed, strings.Join(strings.Fields(
					x.Name+" "+x.Before+" → "+x.After), " "))
			}
			if a.Note != "" {
				changed = append(changed, strconv.Quote(a.Note))
			}
			t.Row(instant(a.At), a.Actor, a.Action, either(a.Subject, "–"), strings.Join(changed, ", "))
		}
		return older(out, t, page.Next)
	})
}

type workspacesClaimCommand struct {
	workspaceFlags `embed:""`
	Owner          string `arg:"" help:"The owner's e-mail address."`
}

// Run claims a workspace.
func (c *workspacesClaimCommand) Run(ctx context.Context, out io.Writer) error {
	return c.act(ctx, out, "/claim", map[string]any{"owner": c.Owner})
}

// purchaseFlags name a purchase of a workspace.
type purchaseFlags struct {
	workspaceFlags `embed:""`
	Purchase       string `arg:"" help:"The purchase's id, pur_…, from workspaces show."`
}

func (f *purchaseFlags) tool(word string) string {
	return "/purchases/" + url.PathEscape(f.Purchase) + "/" + word
}

type workspacesApproveCommand struct {
	purchaseFlags `embed:""`
	Owner         string `help:"The owner's e-mail address, for a workspace that nobody has claimed."`
}

// Run approves a purchase.
func (c *workspacesApproveCommand) Run(ctx context.Context, out io.Writer) error {
	body := map[string]any{}
	if c.Owner != "" {
		body["owner"] = c.Owner
	}
	return c.act(ctx, out, c.tool("approve"), body)
}

type workspacesDenyCommand struct {
	purchaseFlags `embed:""`
}

// Run denies a purchase.
func (c *workspacesDenyCommand) Run(ctx context.Context, out io.Writer) error {
	return c.act(ctx, out, c.tool("deny"), nil)
}

type workspacesRefundCommand struct {
	purchaseFlags `embed:""`
}

// Run has the provider asked again for what it refused to send back.
func (c *workspacesRefundCommand) Run(ctx context.Context, out io.Writer) error {
	return c.act(ctx, out, c.tool("refund"), nil)
}

type workspacesConfirmCommand struct {
	workspaceFlags `embed:""`
	Flow           string `arg:"" help:"The flow's id, flow_…."`
}

// Run confirms a signup.
func (c *workspacesConfirmCommand) Run(ctx context.Context, out io.Writer) error {
	return c.act(ctx, out, "/flows/"+url.PathEscape(c.Flow)+"/confirm-signup", nil)
}

type workspacesCapCommand struct {
	workspaceFlags `embed:""`
	Cents          uint32 `arg:"" help:"The cap in US cents: 5000 is 50 dollars a month."`
}

// Run sets the cap.
func (c *workspacesCapCommand) Run(ctx context.Context, out io.Writer) error {
	return c.act(ctx, out, "/billing/cap", map[string]any{"capCents": c.Cents})
}

type workspacesPauseCommand struct {
	workspaceFlags `embed:""`
}

// Run pauses purchases.
func (c *workspacesPauseCommand) Run(ctx context.Context, out io.Writer) error {
	return c.act(ctx, out, "/billing/pause", map[string]any{"paused": true})
}

type workspacesUnpauseCommand struct {
	workspaceFlags `embed:""`
}

// Run unpauses purchases.
func (c *workspacesUnpauseCommand) Run(ctx context.Context, out io.Writer) error {
	return c.act(ctx, out, "/billing/pause", map[string]any{"paused": false})
}

type workspacesCreditsCommand struct {
	workspaceFlags `embed:""`
	Amount         uint64 `arg:"" help:"How many."`
	Note           string `help:"Why."`
}

// Run grants credits; the workspace may be named by its owner's e-mail address.
func (c *workspacesCreditsCommand) Run(ctx context.Context, out io.Writer) error {
	return c.act(ctx, out, "/credits", map[string]any{"amount": c.Amount, "note": c.Note})
}

type workspacesRemoveCommand struct {
	workspaceFlags `embed:""`
}

// Run removes a workspace.
func (c *workspacesRemoveCommand) Run(ctx context.Context, out io.Writer) error {
	var gone struct {
		ID string `json:"id"`
		At string `json:"removedAt"`
	}
	data, err := c.send(ctx, "DELETE", c.workspacePath(), nil, &gone)
	return c.answer(out, data, err, func() error {
		return Say(out, "%s is removed since %s. Its keys work no more.", gone.ID, instant(gone.At))
	})
}
