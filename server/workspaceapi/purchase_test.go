package workspaceapi

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/paymenttest"
	"tollgate/engine"
	"tollgate/engine/workspace"
	"tollgate/server/provider/fetch"
	"tollgate/server/provider/payment"
)

// collect lets a node collect payments until the test ends.
func (n *node) collect() {
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { n.api.Payments.CollectPayments(ctx, leads) })
	n.t.Cleanup(func() { stop(); running.Wait() })
}

// purchased waits until a purchase has a status, and returns it.
func (c *caller) purchased(id, status string) (a answer) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		a = c.call("GET", "/v1/purchases/"+id, "").is(200, "")
		return a.at("purchase", "status") == status
	}, 30*time.Second, 10*time.Millisecond, "%s", status)
	return a
}

// polled is purchased once the page has been polled. A pass that meets a page while something else
// is done about its purchase leaves it to the next, so the clock goes on.
func (s *shop) polled(c *caller, id, status string) answer {
	s.t.Helper()
	s.Later(pollAfter)
	require.Eventually(s.t, func() bool {
		s.Later(pollEvery)
		return c.call("GET", "/v1/purchases/"+id, "").is(200, "").at("purchase", "status") == status
	}, 30*time.Second, 200*time.Millisecond, "%s", status)
	return c.purchased(id, status)
}

// approved asks for runs, has the operator approve them and returns the purchase and its page.
func (c *caller) approved(runs string) (id, page string) {
	c.t.Helper()
	a := c.keyed("/v1/purchases", "asked-"+rand8(), `{"runs":`+runs+`}`).is(402, "payment_required")
	id = a.at("purchase", "id").(string)
	require.Equal(c.t, "approve", a.at("next_action"))
	shown := c.operate("/purchases/"+id+"/approve", `{"owner":"ada@example.com"}`)
	newest := shown.body["data"].(map[string]any)["purchases"].([]any)[0].(map[string]any)
	require.Equal(c.t, id, newest["id"])
	page, _ = newest["url"].(string)
	return id, page
}

func rand8() string { return idText("", mint()) }

func (c *caller) usage() map[string]any {
	c.t.Helper()
	return c.call("GET", "/v1/account", "").is(200, "").at("billing", "usage").(map[string]any)
}

// TestASavedCardPays: the page of the first purchase saves the card; later ones are charged without
// their owner, within the cap, and once per key.
func TestASavedCardPays(t *testing.T) {
	t.Parallel()
	n := start(t)
	n.collect()
	c := n.signUp("")
	flow := c.flow(plainFlow)
	_, page := c.approved("1")
	n.payPage(page)

	a := c.keyed("/v1/purchases", "buy-three", `{"runs":3}`).is(201, "")
	require.Equal(t, "succeeded", a.at("purchase", "status"))
	bought := a.at("purchase", "id")
	again := c.keyed("/v1/purchases", "buy-three", `{"runs":3}`).is(201, "")
	require.Equal(t, bought, again.at("purchase", "id"))
	c.keyed("/v1/purchases", "buy-three", `{"runs":2}`).is(409, "idempotency_conflict")
	require.EqualValues(t, 4, c.usage()["runsLeft"])
	require.EqualValues(t, 2000, c.usage()["spentCents"])
	require.EqualValues(t, 3000, c.usage()["remainingCents"])

	over := c.keyed("/v1/purchases", "buy-seven", `{"runs":7}`).is(402, "payment_required")
	require.Equal(t, "over_cap", over.at("reason"))
	require.Contains(t, over.at("approval_url"), publicURL+"/approve/")
	id := over.at("purchase", "id").(string)
	c.operate("/purchases/"+id+"/approve", "")
	c.purchased(id, "succeeded")
	require.EqualValues(t, 5500, c.usage()["spentCents"])
	require.EqualValues(t, 0, c.usage()["remainingCents"])

	// A start that finds no run left says that the card can pay, and pays nothing itself.
	n.policy(func(p *workspace.SetPolicy) { p.FreeRunsPerMonth, p.RunsPerDay = 0, 100 })
	c.operate("/billing/cap", `{"capCents":20000}`)
	for range 11 {
		run := c.start(flow, "start-"+rand8()).is(202, "").at("run", "id").(string)
		c.finished(run)
	}
	asked := c.start(flow, "start-last").is(402, "payment_required")
	require.Equal(t, "purchase", asked.at("next_action"))
	require.Nil(t, asked.at("purchase"))
	require.Nil(t, asked.at("poll_url"))
	c.keyed("/v1/purchases", "buy-just-one", `{"runs":1}`).is(201, "")
	c.start(flow, "start-last").is(202, "")
	require.Empty(t, n.Machine.PaymentTasks(workspace.TaskCharge, 0, 9))
}

// TestAQuoteSaysWhatPays: on a day whose free runs are used a bought run does, and the quote says
// so.
func TestAQuoteSaysWhatPays(t *testing.T) {
	n := start(t)
	n.collect()
	n.policy(func(p *workspace.SetPolicy) { p.FreeRunsPerDay = 1 })
	c, other := n.signUp(""), n.signUp("")
	other.claim()
	flow, theirs := c.flow(plainFlow), other.flow(plainFlow)
	_, page := c.approved("1")
	n.payPage(page)
	require.Equal(t, "free", c.quote(flow)["charge"])
	other.start(theirs, "start-theirs").is(202, "")
	require.Equal(t, "paid", c.quote(flow)["charge"])
	a := c.start(flow, "start-mine").is(202, "")
	require.Equal(t, "paid", a.at("run", "charge", "kind"))
	require.Equal(t, "none", other.quote(theirs)["charge"])
}

// finished lets a worker carry a run out, whose charge is spent.
func (c *caller) finished(run string) {
	c.t.Helper()
	id, _ := parseID(markRun, run)
	c.claimRun()
	c.does(workspace.KindFinishRun, &workspace.FinishRun{
		Run: id, Token: 1, Status: workspace.RunCompleted, Outcome: workspace.OutcomePassed,
	})
}

// TestADeclinedCardNeedsItsOwner: with the link that this request made; a repetition gets none.
func TestADeclinedCardNeedsItsOwner(t *testing.T) {
	for _, card := range []string{"later-decline", "later-authenticate"} {
		n := start(t)
		n.collect()
		c := n.signUp("")
		_, page := c.approved("1")
		n.payWith(page, card)
		a := c.keyed("/v1/purchases", "buy-three", `{"runs":3}`).is(402, "payment_required")
		require.Equal(t, "card_declined", a.at("reason"))
		link := a.at("approval_url").(string)
		shown := n.send("GET", link[len(publicURL):], "", "", nil).is(200, "")
		require.Equal(t, a.at("purchase", "id"), shown.at("purchase", "id"))
		require.Equal(t, "acme", shown.at("workspace"))
		again := c.keyed("/v1/purchases", "buy-three", `{"runs":3}`).is(402, "payment_required")
		require.Nil(t, again.at("approval_url"))
		id := a.at("purchase", "id").(string)
		c.operate("/purchases/"+id+"/approve", "")
		polled := c.purchased(id, "checkout")
		require.Nil(t, polled.at("purchase", "approval_url"))
		require.Eventually(t, func() bool {
			shown = n.send("GET", link[len(publicURL):], "", "", nil).is(200, "")
			return shown.body["checkout_url"] != nil
		}, 30*time.Second, 10*time.Millisecond, "the link shows where it is paid")
		require.Equal(t, "checkout", shown.at("purchase", "status"))
		require.EqualValues(t, 500, c.usage()["spentCents"])
	}
}

// TestApprovalLinksShow: GET shows, POST acts and needs a person; a renewed link replaces the one
// before, and a cancelled purchase has none.
func TestApprovalLinksShow(t *testing.T) {
	n := start(t)
	c := n.signUp("")
	a := c.keyed("/v1/purchases", "buy-three", `{"runs":3}`).is(402, "payment_required")
	id, first := a.at("purchase", "id").(string), a.at("approval_url").(string)[len(publicURL):]
	require.Equal(t, "no-store", n.send("GET", first, "", "", nil).is(200, "").header.Get("Cache-Control"))
	n.send("POST", first, `{"action":"approve"}`, "", nil).is(401, "sign_in_required")
	c.call("GET", "/v1/purchases/"+id, "").is(200, "")
	require.Equal(t, "requires_approval", n.send("GET", first, "", "", nil).at("purchase", "status"))
	second := c.call("POST", "/v1/purchases/"+id+"/approval-link", "").is(200, "").
		at("approval_url").(string)[len(publicURL):]
	n.send("GET", first, "", "", nil).is(404, "not_found")
	n.send("GET", second, "", "", nil).is(200, "")
	c.call("POST", "/v1/purchases/"+id+"/cancel", "").is(200, "")
	n.send("GET", second, "", "", nil).is(404, "not_found")
	n.send("GET", "/approve/"+id, "", "", nil).is(404, "not_found")
}

// shop is a node that sells runs through Stripe.
type shop struct {
	*node
	stripe *paymenttest.Stripe
}

const webhookSecret = "whsec_test"

func startShop(t *testing.T) *shop {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	stripe := paymenttest.ServeStripe(t, ln, "sk_test_shop")
	client, err := fetch.New(fetch.Config{
		AllowPrivate: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
		AllowHosts:   []string{ln.Addr().String()},
	})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	cards, err := payment.NewStripe(client, payment.StripeConfig{
		BaseURL: "http://" + ln.Addr().String(), SecretKey: "sk_test_shop",
		WebhookSecret: webhookSecret, Tag: PurchaseTag,
	})
	require.NoError(t, err)
	n := start(t, func(c *Config) { c.Cards = cards })
	n.collect()
	return &shop{n, stripe}
}

// report sends Stripe's event about the session of a purchase.
func (s *shop) report(purchase, kind string) answer {
	s.t.Helper()
	session, _ := s.stripe.Session(purchase)
	body := s.stripe.Event("evt_"+purchase, kind, session, s.Now())
	return s.send("POST", webhookPath, string(body), "", map[string]string{
		"Stripe-Signature": paymenttest.Signature(webhookSecret, body, s.Now()),
	})
}

const completed = "checkout.session.completed"

func TestPurchasesThroughStripe(t *testing.T) {
	t.Parallel()
	s := startShop(t)
	c := s.signUp("")
	id, page := c.approved("2")
	require.Contains(t, page, "https://checkout.stripe.com/")
	session, status := s.stripe.Session(id)
	require.Equal(t, "open", status)
	s.stripe.Pay(session)
	for range 2 {
		require.Equal(t, 200, s.report(id, completed).status)
	}
	require.Equal(t, "succeeded", c.call("GET", "/v1/purchases/"+id, "").at("purchase", "status"))
	require.EqualValues(t, 2, c.usage()["runsLeft"])
	c.call("POST", "/v1/purchases/"+id+"/cancel", "").is(409, "checkout_completed")

	// Charged once, though Stripe's answer is lost twice.
	s.stripe.Silent(2)
	bought := c.keyed("/v1/purchases", "buy-three", `{"runs":3}`)
	require.Contains(t, []int{201, 202}, bought.status, string(bought.raw))
	c.purchased(bought.at("purchase", "id").(string), "succeeded")
	require.Equal(t, 1, s.stripe.Charges())
	require.EqualValues(t, 5, c.usage()["runsLeft"])
	require.EqualValues(t, 2500, c.usage()["spentCents"])

	s.stripe.Decline("authentication_required")
	a := c.keyed("/v1/purchases", "buy-just-one", `{"runs":1}`).is(402, "payment_required")
	require.Equal(t, "card_declined", a.at("reason"))
	require.Equal(t, 1, s.stripe.Charges())
}

// TestPagesAtStripe: cancelling closes the page; one that is paid already stays paid; a webhook
// that is lost is found; money for a purchase that had ended is sent back, once.
func TestPagesAtStripe(t *testing.T) {
	t.Parallel()
	s := startShop(t)
	c := s.signUp("")
	id, _ := c.approved("1")
	c.call("POST", "/v1/purchases/"+id+"/cancel", "").is(200, "")
	_, status := s.stripe.Session(id)
	require.Equal(t, "expired", status)

	id, _ = c.approved("1")
	session, _ := s.stripe.Session(id)
	s.stripe.Pay(session)
	c.call("POST", "/v1/purchases/"+id+"/cancel", "").is(409, "checkout_completed")
	c.purchased(id, "succeeded")

	c.operate("/billing/pause", `{"paused":true}`)
	s.stripe.Decline("card_declined")
	id, _ = c.approved("1") // by the saved card, which is declined
	c.purchased(id, "requires_approval")
	c.operate("/purchases/"+id+"/approve", "")
	c.purchased(id, "checkout")
	session, _ = s.stripe.Session(id)
	s.stripe.Pay(session)
	s.polled(c, id, "succeeded")

	c.keyed("/v1/purchases", "ask-again", `{"runs":1}`).is(402, "payment_required")
	late := c.call("GET", "/v1/purchases?limit=1", "").at("purchases").([]any)[0].(map[string]any)["id"].(string)
	c.operate("/purchases/"+late+"/approve", "")
	c.purchased(late, "requires_approval")
	c.operate("/purchases/"+late+"/approve", "")
	c.purchased(late, "checkout")
	session, _ = s.stripe.Session(late)
	c.operate("/purchases/"+late+"/deny", "")
	s.stripe.Pay(session)
	require.Equal(t, 200, s.report(late, completed).status)
	require.Eventually(t, func() bool { return len(s.stripe.Refunds()) == 1 },
		30*time.Second, 10*time.Millisecond)
	require.Equal(t, "pi_"+session, s.stripe.Refunds()[0])
	require.Equal(t, 200, s.report(late, completed).status)
	require.Eventually(t, func() bool {
		return len(s.Machine.PaymentTasks(workspace.TaskRefund, 0, 9)) == 0
	}, 30*time.Second, 10*time.Millisecond)
	require.Equal(t, "denied", c.call("GET", "/v1/purchases/"+late, "").at("purchase", "status"))
	require.Len(t, s.stripe.Refunds(), 1)
}

// TestAPurchaseThatIsPaidTwice: the second payment brings nothing and is sent back, once.
func TestAPurchaseThatIsPaidTwice(t *testing.T) {
	s := startShop(t)
	c := s.signUp("")
	id, session := s.sells(t, c, "2")
	c.purchased(id, "succeeded")
	s.stripe.Set(session, map[string]any{"payment_intent": map[string]any{
		"id": "pi_second", "status": "succeeded", "payment_method": "pm_second",
	}})
	for range 2 {
		require.Equal(t, 200, s.report(id, completed).status)
	}
	require.Eventually(t, func() bool { return len(s.returns(c, id)) == 1 && !s.due(c, id) },
		30*time.Second, 10*time.Millisecond)
	require.Equal(t, []string{"pi_second"}, s.stripe.Refunds())
	require.Equal(t, "pi_second", s.returns(c, id)[0].(map[string]any)["payment"])
	require.Equal(t, 200, s.report(id, completed).status)
	require.Len(t, s.returns(c, id), 1)
	require.Empty(t, s.Machine.PaymentTasks(workspace.TaskRefund, 0, 9))
	require.EqualValues(t, 2, c.usage()["runsLeft"])
	require.EqualValues(t, 1000, c.usage()["spentCents"])
	require.Equal(t, "succeeded", c.call("GET", "/v1/purchases/"+id, "").at("purchase", "status"))
}

// sells is an order that its owner has paid: its purchase, and the session at Stripe.
func (s *shop) sells(t *testing.T, c *caller, runs string) (purchase, session string) {
	t.Helper()
	purchase, _ = c.approved(runs)
	session, _ = s.stripe.Session(purchase)
	s.stripe.Pay(session)
	require.Equal(t, 200, s.report(purchase, completed).status)
	return purchase, session
}

// order is a purchase as operators see it.
func (s *shop) order(c *caller, id string) map[string]any {
	s.t.Helper()
	for _, item := range s.send("GET", operatorTools+"/"+c.workspace, "", "", nil).told("purchases").([]any) {
		if p := item.(map[string]any); p["id"] == id {
			return p
		}
	}
	s.t.Fatalf("%s is not shown", id)
	return nil
}

func (s *shop) returns(c *caller, id string) []any {
	returns, _ := s.order(c, id)["returns"].([]any)
	return returns
}

func (s *shop) due(c *caller, id string) bool { return s.order(c, id)["refundDue"].(bool) }

// TestARefundThatIsRefused: is asked for some minutes and not forever; then operators see it, and
// can have it asked for again.
func TestARefundThatIsRefused(t *testing.T) {
	t.Parallel()
	s := startShop(t)
	c := s.signUp("")
	id, _ := c.approved("1")
	session, _ := s.stripe.Session(id)
	c.operate("/purchases/"+id+"/deny", "")
	s.stripe.Refuse("/v1/refunds", "charge_disputed")
	s.stripe.Pay(session)
	require.Equal(t, 200, s.report(id, completed).status)
	require.True(t, s.due(c, id))
	refused := func() bool {
		s.Later(5 * time.Second)
		one := s.returns(c, id)[0].(map[string]any)
		return one["refused"] == "charge_disputed"
	}
	require.Eventually(t, refused, time.Minute, 10*time.Millisecond)
	require.True(t, s.due(c, id), "it is owed all the same")
	require.Empty(t, s.Machine.PaymentTasks(workspace.TaskRefund, 0, 9))
	c.operate("/purchases/"+id+"/refund", "")
	require.Len(t, s.Machine.PaymentTasks(workspace.TaskRefund, 0, 9), 1)
	s.stripe.Refuse("/v1/refunds", "")
	require.Eventually(t, func() bool {
		s.Later(5 * time.Second)
		return !s.due(c, id)
	}, time.Minute, 10*time.Millisecond)
	require.Equal(t, []string{"pi_" + session}, s.stripe.Refunds())
	acts := s.send("GET", operatorTools+"/"+c.workspace+"/acts?limit=1", "", "", nil).told("acts")
	require.Equal(t, "retry_refund", acts.([]any)[0].(map[string]any)["action"])
}

// TestAPageThatIsRefused: a purchase for which its provider makes no page fails, and its workspace
// is free for another.
func TestAPageThatIsRefused(t *testing.T) {
	t.Parallel()
	s := startShop(t)
	c := s.signUp("")
	s.stripe.Refuse("/v1/checkout/sessions", "account_invalid")
	id, page := c.approved("1")
	require.Empty(t, page)
	require.Equal(t, "checkout", c.call("GET", "/v1/purchases/"+id, "").at("purchase", "status"))
	require.Eventually(t, func() bool {
		s.Later(5 * time.Second)
		return c.call("GET", "/v1/purchases/"+id, "").at("purchase", "status") == "failed"
	}, time.Minute, 10*time.Millisecond)
	notice := c.call("GET", "/v1/notifications?limit=1", "").at("notifications").([]any)[0].(map[string]any)
	require.Equal(t, "purchase", notice["type"])
	s.stripe.Refuse("/v1/checkout/sessions", "")
	_, page = c.approved("1")
	require.NotEmpty(t, page)
	require.EqualValues(t, 0, c.usage()["spentCents"])
}

// TestAProviderThatIsDown: an approved purchase gets its page, and a charge its answer, when the
// provider is back.
func TestAProviderThatIsDown(t *testing.T) {
	s := startShop(t)
	c := s.signUp("")
	s.stripe.Down(true)
	id, page := c.approved("1")
	require.Empty(t, page)
	s.stripe.Down(false)
	var session string
	require.Eventually(t, func() bool {
		s.Later(time.Second)
		v := s.Machine.PaymentTasks(workspace.TaskPoll, 0, 1)
		session, _ = s.stripe.Session(id)
		return len(v) == 1 && session != ""
	}, 30*time.Second, 10*time.Millisecond)
	s.stripe.Pay(session)
	s.stripe.Down(true)
	require.Equal(t, 503, s.report(id, completed).status, "it is to come again")
	s.stripe.Down(false)
	require.Equal(t, 200, s.report(id, completed).status)
	c.purchased(id, "succeeded")
}

// TestAnOldChargeIsOnlyLookedFor: when the provider may have forgotten the key, nothing is charged
// again: what was charged is found, and what was not needs the owner.
func TestAnOldChargeIsOnlyLookedFor(t *testing.T) {
	t.Parallel()
	for _, charged := range []bool{true, false} {
		s := startShop(t)
		c := s.signUp("")
		s.sells(t, c, "1")
		s.stripe.Silent(1)
		s.stripe.Down(!charged)
		id, _ := parseID(markWorkspace, c.workspace)
		bought := mint()
		require.True(t,
			outcomeDone(s.api.propose(0, workspace.KindRequestPurchase, &workspace.RequestPurchase{
				Workspace: s.Machine.WorkspaceRow(id), ID: bought, Runs: 2,
			})))
		if charged {
			require.Eventually(t, func() bool { return s.stripe.Charges() == 1 },
				30*time.Second, time.Millisecond)
		}
		s.stripe.Down(true)
		s.Later(keyLife + time.Minute)
		if asked := s.stripe.Asked(); !charged {
			// The second question from now on is one that was begun by the new time.
			require.Eventually(t, func() bool {
				s.Later(time.Minute)
				return s.stripe.Asked() >= asked+2
			}, 30*time.Second, 10*time.Millisecond)
		}
		s.stripe.ForgetKeys()
		s.stripe.Down(false)
		want := map[bool]string{true: "succeeded", false: "requires_approval"}[charged]
		name := idText(markPurchase, bought)
		require.Eventually(t, func() bool {
			s.Later(time.Minute)
			return c.call("GET", "/v1/purchases/"+name, "").at("purchase", "status") == want
		}, 30*time.Second, 10*time.Millisecond)
		require.Equal(t, map[bool]int{true: 1, false: 0}[charged], s.stripe.Charges())
	}
}

// TestAKeyThatWasUsedOtherwiseIsNoDecline: what was charged under it is found, by the build before,
// say, that described it otherwise; and where nothing is found, nobody is asked to pay once more
// until the key is forgotten.
func TestAKeyThatWasUsedOtherwiseIsNoDecline(t *testing.T) {
	t.Parallel()
	for _, charged := range []bool{true, false} {
		s := startShop(t)
		c := s.signUp("")
		_, session := s.sells(t, c, "1")
		bought := mint()
		name := idText(markPurchase, bought)
		if !charged {
			s.stripe.UseKey(name)
		} else {
			_, err := s.api.Payments.cards.Charge(t.Context(), payment.ChargeRequest{
				InvoiceID: name, Description: "in other words", IdempotencyKey: name,
				Card:   "cus_" + session + "/pm_" + session,
				Amount: payment.Amount{Minor: 1000, Currency: currency},
			})
			require.NoError(t, err)
		}
		asked := s.stripe.Asked()
		ws, _ := parseID(markWorkspace, c.workspace)
		require.True(t,
			outcomeDone(s.api.propose(0, workspace.KindRequestPurchase, &workspace.RequestPurchase{
				Workspace: s.Machine.WorkspaceRow(ws), ID: bought, Runs: 2,
			})))
		if charged {
			c.purchased(name, "succeeded")
			require.Equal(t, 1, s.stripe.Charges())
			continue
		}
		require.Eventually(t, func() bool {
			s.Later(time.Minute)
			return s.stripe.Asked() >= asked+6
		}, 30*time.Second, 10*time.Millisecond)
		require.Equal(t, "processing", c.call("GET", "/v1/purchases/"+name, "").at("purchase", "status"))
		s.Later(keyLife)
		c.purchased(name, "requires_approval")
		require.Zero(t, s.stripe.Charges())
	}
}

// TestAnInterruptedCancellation: a page that was closed, though the purchase was not cancelled,
// holds its workspace up no longer than until the request is repeated, or the page is polled.
func TestAnInterruptedCancellation(t *testing.T) {
	t.Parallel()
	s := startShop(t)
	c := s.signUp("")
	interrupted := func() (id string) {
		t.Helper()
		id, _ = c.approved("1")
		s.Refuse(engine.OutcomeUnavailable)
		c.call("POST", "/v1/purchases/"+id+"/cancel", "").is(503, "workspace_busy")
		s.Refuse(engine.OutcomeNone)
		_, status := s.stripe.Session(id)
		require.Equal(t, "expired", status)
		require.Equal(t, "checkout", c.call("GET", "/v1/purchases/"+id, "").at("purchase", "status"))
		return id
	}
	id := interrupted()
	cancelled := c.call("POST", "/v1/purchases/"+id+"/cancel", "").is(200, "")
	require.Equal(t, "cancelled", cancelled.at("purchase", "status"))
	entries := s.Entries()
	at := slices.IndexFunc(entries, func(kinds []engine.Kind) bool {
		return slices.Contains(kinds, workspace.KindCancelPurchase)
	})
	require.Equal(t, []engine.Kind{workspace.KindCancelPurchase, workspace.KindNoteCheckout},
		entries[at],
		"closed and cancelled are one entry")

	id = interrupted()
	s.polled(c, id, "cancelled")

	// A build before this one noted the closed page alone.
	id, _ = c.approved("1")
	number, _ := parseID(markPurchase, id)
	closed := &workspace.NoteCheckout{ID: number, Closed: true}
	require.NoError(t, s.api.Payments.note(workspace.KindNoteCheckout, closed))
	c.purchased(id, "cancelled")

	ws, _ := parseID(markWorkspace, c.workspace)
	account, _ := s.Machine.Account(s.Machine.WorkspaceRow(ws), s.api.now())
	require.EqualValues(t, 1, account.CancelsToday, "what the service ends is not counted")
	for _, task := range []workspace.PaymentTask{
		workspace.TaskPoll, workspace.TaskClose,
		workspace.TaskEnd,
	} {
		require.Empty(t, s.Machine.PaymentTasks(task, 0, 9), "task %d", task)
	}
}

func TestReportsThatAreRefused(t *testing.T) {
	s := startShop(t)
	c := s.signUp("")
	id, _ := c.approved("1")
	session, _ := s.stripe.Session(id)
	s.stripe.Pay(session)
	s.stripe.Set(session, map[string]any{"amount_total": 100})
	s.report(id, completed).is(404, "not_found")
	require.Equal(t, "checkout", c.call("GET", "/v1/purchases/"+id, "").at("purchase", "status"))
	s.stripe.Set(session, map[string]any{"amount_total": 500, "metadata": map[string]any{PurchaseTag: "pur_x"}})
	body := s.stripe.Event("evt_1", completed, session, s.Now())
	for signature, status := range map[string]int{
		paymenttest.Signature("whsec_other", body, s.Now()):                      401,
		paymenttest.Signature(webhookSecret, body, s.Now().Add(-10*time.Minute)): 400,
		paymenttest.Signature(webhookSecret, body, s.Now()):                      404,
	} {
		a := s.send("POST", webhookPath, string(body), "", map[string]string{"Stripe-Signature": signature})
		require.Equal(t, status, a.status, string(a.raw))
	}
	s.stripe.Set(session, map[string]any{"metadata": map[string]any{"tollgate_invoice": "inv_1"}})
	require.Equal(t, 200, s.send("POST", webhookPath, string(s.stripe.Event("evt_2", completed, session, s.Now())), "",
		map[string]string{"Stripe-Signature": paymenttest.Signature(webhookSecret,
			s.stripe.Event("evt_2", completed, session, s.Now()), s.Now())}).status, "another's session")
}

func TestMain(m *testing.M) { paymenttest.Main(m) }

// TestTheOwnerConfirmsWhatIsShown: the approval link shows the flow, and a flow that is changed
// afterwards is not confirmed by approving.
func TestTheOwnerConfirmsWhatIsShown(t *testing.T) {
	n, _, base := idleNode(t)
	c := n.signUp("")
	flow := c.flow(`{` + strings.Replace(flowText, "https://product.example", base, 1) +
		`,"credential":"bearer","verification":{"url":"` + base + `/me","status":200}}`)
	link := c.start(flow, "key-00001").is(402, "payment_required").at("approval_url").(string)
	show := func() answer { return n.send("GET", strings.TrimPrefix(link, publicURL), "", "", nil) }
	shown := show().is(200, "")
	require.Equal(t, []any{flow, base + "/", "Sign up.", 1.0, true}, []any{
		shown.at("flow", "id"), shown.at("flow", "url"), shown.at("flow", "task"),
		shown.at("flow", "version"), shown.at("flow", "confirmsSignup"),
	})
	c.call("PATCH", "/v1/flows/"+flow, `{"task":"Sign up, and order the dearest plan."}`).is(200, "")
	shown = show().is(200, "")
	require.Equal(t, []any{2.0, false},
		[]any{shown.at("flow", "version"), shown.at("flow", "confirmsSignup")})
	newest := c.call("GET", "/v1/purchases", "").at("purchases").([]any)[0].(map[string]any)
	c.operate("/purchases/"+newest["id"].(string)+"/approve", `{"owner":"ada@example.com"}`)
	require.Equal(t, false, c.call("GET", "/v1/flows/"+flow, "").at("flow", "signupConfirmed"))
}

// TestARequestThatWasApprovedIsNotChargedAgain: the same key, after its 402 was approved and paid,
// is the purchase that there is, though the card that was saved could pay another.
func TestARequestThatWasApprovedIsNotChargedAgain(t *testing.T) {
	n := start(t)
	n.collect()
	c := n.signUp("")
	buy := func() answer { return c.keyed("/v1/purchases", "buy-two-runs", `{"runs":2}`) }
	id := buy().is(402, "payment_required").at("purchase", "id").(string)
	c.operate("/purchases/"+id+"/approve", `{"owner":"ada@example.com"}`)
	n.payPage(c.page(id))
	c.purchased(id, "succeeded")
	a := buy().is(201, "")
	require.Equal(t, []any{id, "succeeded"}, []any{a.at("purchase", "id"), a.at("purchase", "status")})
	require.Len(t, c.call("GET", "/v1/purchases", "").at("purchases"), 1)
	require.EqualValues(t, 1000, c.usage()["spentCents"])
	c.keyed("/v1/purchases", "buy-two-runs", `{"runs":3}`).is(409, "idempotency_conflict")
	c.keyed("/v1/purchases", "buy-two-more", `{"runs":2}`).is(201, "")
	require.EqualValues(t, 2000, c.usage()["spentCents"])
}
