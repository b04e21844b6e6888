package owner_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/engine/workspace"
	"tollgate/server/console/owner"
	"tollgate/server/console/page"
	"tollgate/server/workspaceapi"
)

// hidden is the value of a field that a form carries.
func hidden(t *testing.T, body, name string) string {
	t.Helper()
	found := regexp.MustCompile(`name="` + name + `" value="([^"]+)"`).FindStringSubmatch(body)
	require.Len(t, found, 2, "%s in %s", name, body)
	return found[1]
}

func draftOf(id string, more ...string) []string {
	return append([]string{
		"id", id, "name", "Sign up", "url", "https://acme.example/", "task", "Sign up.",
		"successCriteria", "There is an account.", "access", "public",
		"verification.url", "https://acme.example/me", "verification.status", "200",
		"verification.contains", "ok", "credential", "", "agent", "",
	}, more...)
}

// TestAnOwnersFlow: made, changed and archived by forms; a form that is sent twice makes one flow,
// and a refused one keeps its values.
func TestAnOwnersFlow(t *testing.T) {
	s, ws := mine(t)
	const flows = owner.Root + "/flows"
	require.Contains(t, s.sees(flows), flows+"/new")
	id := hidden(t, s.sees(flows+"/new"), "id")
	for name, c := range map[string]struct{ field, value string }{
		"no name":           {"name", ""},
		"no address":        {"url", "ftp://acme.example/"},
		"a password":        {"task", "Sign in with password=hunter2hunter2."},
		"no proof":          {"verification.contains", ""},
		"no status":         {"verification.status", "x"},
		"an unknown agent":  {"agent", "nobody"},
		"an access of ours": {"access", "admin"},
	} {
		a := s.sends(flows, draftOf(id, c.field, c.value)...)
		require.Equal(t, 400, a.status, name)
		require.Contains(t, a.body, "Nothing was saved", name)
		if c.field != "task" {
			require.Contains(t, a.body, "Sign up.</textarea>", name)
		}
	}
	require.Equal(t, 400, s.sends(flows, draftOf("flow_1")...).status)
	for range 2 {
		a := s.sends(flows, draftOf(id)...)
		require.Equal(t, 303, a.status, a.body)
		require.Equal(t, flows+"/"+id+"?done=save", string(a.header.Peek("Location")))
	}
	saved, _ := s.Machine.Flows(ws, workspace.Page{Limit: 10})
	require.Len(t, saved, 1)
	require.EqualValues(t, 1, saved[0].Version)

	body := s.sees(flows + "/" + id + "/edit")
	require.Contains(t, body, `value="https://acme.example/me"`)
	require.Equal(t, id, hidden(t, body, "id"))
	a := s.sends(flows, draftOf(id, "credential", "bearer", "verification.contains", "",
		"verification.status", "", "agent", "clever")...)
	require.Equal(t, 303, a.status, a.body)
	saved, _ = s.Machine.Flows(ws, workspace.Page{Limit: 10})
	require.Len(t, saved, 1)
	require.EqualValues(t, 2, saved[0].Version)
	require.Equal(t, "bearer", saved[0].Credential)
	require.Zero(t, saved[0].VerificationStatus)
	require.Empty(t, saved[0].VerificationContains)

	require.Equal(t, 303, s.sends(flows+"/"+id+"/archive").status)
	saved, _ = s.Machine.Flows(ws, workspace.Page{Limit: 10})
	require.Empty(t, saved)
	require.Equal(t, 404, s.ask("GET", flows+"/"+id+"/start", nil).status)
}

// TestAnothersFlowIsNotChanged: nor seen to be there.
func TestAnothersFlowIsNotChanged(t *testing.T) {
	s, _ := mine(t)
	const flows = owner.Root + "/flows"
	other, _ := s.signUp("other")
	id := workspaceapi.NewFlow()
	s.does(workspace.KindSaveFlow, &workspace.SaveFlow{
		Workspace: other, ID: id,
		Document: workspace.FlowDocument{Name: "theirs", Access: "public"},
	})
	text := workspaceapi.NounFlow.Text(id)
	for _, path := range []string{"/edit", "/start"} {
		require.Equal(t, 404, s.ask("GET", flows+"/"+text+path, nil).status, path)
	}
	for _, path := range []string{"/archive", "/start"} {
		a := s.sends(flows+"/"+text+path, "fingerprint", "x")
		require.Equal(t, 404, a.status, path)
	}
	a := s.sends(flows, draftOf(text)...)
	require.Equal(t, 404, a.status, a.body)
	require.NotContains(t, a.body, "theirs")
	theirs, known := s.Machine.Flow(other, id)
	require.True(t, known && theirs.Name == "theirs" && theirs.Version == 1)
}

// TestAnOwnerStartsARun: the page shows the price; without a run left it leads to the purchase;
// with one the run begins, once, however often the form is sent; an owner answers and cancels it.
func TestAnOwnerStartsARun(t *testing.T) {
	s, ws := mine(t)
	const flows = owner.Root + "/flows"
	id := hidden(t, s.sees(flows+"/new"), "id")
	require.Equal(t, 303, s.sends(flows, draftOf(id)...).status)
	page := flows + "/" + id + "/start"
	policy := s.Machine.Policy()
	policy.FreeRunsPerMonth = 0
	s.does(workspace.KindSetPolicy, &policy)

	const cap = "$0.00 of your cap of $50.00"
	require.Contains(t, s.sees(owner.Root+"/purchases"), "Buy runs, $5.00 each", "at its button")
	body := s.sees(page)
	require.Contains(t, body, "$5.00: no run is left, so you buy one first")
	require.Contains(t, body, cap)
	require.Contains(t, body, "acme.example")
	a := s.sends(page, "fingerprint", "q1.x.y", "_once", "zeroth")
	require.Equal(t, 400, a.status, a.body)
	require.Contains(t, a.body, "$5.00: no run is left, so you buy one first")
	require.Contains(t, a.body, cap)
	a = s.sends(page, "fingerprint", hidden(t, body, "fingerprint"), "_once", "first")
	require.Equal(t, 303, a.status, a.body)
	purchase := string(a.header.Peek("Location"))
	require.Contains(t, purchase, owner.Root+"/purchases/pur_")
	require.Contains(t, s.sees(purchase), "Approve $5.00")
	require.Contains(t, s.sees(purchase), "It sets your monthly cap to $50.00")
	bought, _ := s.Machine.Purchases(ws, workspace.Page{Limit: 10})
	require.Len(t, bought, 1)
	s.does(workspace.KindApprovePurchase, &workspace.ApprovePurchase{
		ID: bought[0].ID, Owner: "ada@example.com", Person: s.who.Person,
	})
	s.does(workspace.KindNotePayment, &workspace.NotePayment{
		ID: bought[0].ID, Result: workspace.PaymentPaid, Payment: "pi", Card: "card",
	})

	body = s.sees(page)
	require.Contains(t, body, "one of the runs that were bought (1 left)")
	require.Equal(t, 400, s.sends(page, "fingerprint", "q1.x.y", "_once", "second").status)
	for range 2 {
		a = s.sends(page, "fingerprint", hidden(t, body, "fingerprint"), "_once", "second")
		require.Equal(t, 303, a.status, a.body)
	}
	runs, _ := s.Machine.Runs(ws, workspace.Page{Limit: 10})
	require.Len(t, runs, 1)
	at := owner.Root + "/runs/" + workspaceapi.NounRun.Text(runs[0].ID)
	require.Equal(t, at+"?done=start", string(a.header.Peek("Location")))
	require.NotContains(t, s.sees(at), "Your answer")
	require.Equal(t, 409, s.sends(at+"/answer", "answer", "yes").status)
	require.Equal(t, 409, s.sends(page, "fingerprint", hidden(t, body, "fingerprint"),
		"_once", "third").status, "one run of a flow at a time")

	s.does(workspace.KindClaimRun, &workspace.ClaimRun{Worker: "w", LeaseMS: 60_000})
	s.does(workspace.KindAwaitPerson,
		&workspace.AwaitPerson{Run: runs[0].ID, Token: 1, Question: "Which?"})
	require.Contains(t, s.sees(at), "Your answer")
	require.Equal(t, 400, s.sends(at+"/answer", "answer", strings.Repeat("x", 501)).status)
	require.Equal(t, 303, s.sends(at+"/answer", "answer", "the blue one").status)
	run, _ := s.Machine.Run(ws, runs[0].ID)
	require.Equal(t, workspace.RunQueued, run.Status)
	require.Equal(t, 303, s.sends(at+"/cancel").status)
	run, _ = s.Machine.Run(ws, runs[0].ID)
	require.Equal(t, workspace.RunCancelled, run.Status)
	require.Equal(t, 303, s.sends(at+"/cancel", "_once", "again").status, "it is, already")
	require.NotContains(t, s.sees(at), "Cancel the run")
	require.NotContains(t, s.sees(at+"?done=start"), "renews")
}

// TestAStartChargesNoSavedCard: where no run is left the page shows that nothing was charged, where
// to buy one, and the price of a run.
func TestAStartChargesNoSavedCard(t *testing.T) {
	s, ws := mine(t)
	const flows = owner.Root + "/flows"
	policy := s.Machine.Policy()
	policy.FreeRunsPerMonth = 0
	s.does(workspace.KindSetPolicy, &policy)
	var pages [2]string
	for i := range pages {
		id := hidden(t, s.sees(flows+"/new"), "id")
		require.Equal(t, 303, s.sends(flows, draftOf(id)...).status)
		pages[i] = flows + "/" + id + "/start"
	}
	start := func(page, once string) answer {
		return s.sends(page, "fingerprint", hidden(t, s.sees(page), "fingerprint"), "_once", once)
	}
	require.Equal(t, 303, start(pages[0], "asks").status)
	bought, _ := s.Machine.Purchases(ws, workspace.Page{Limit: 10})
	s.does(workspace.KindApprovePurchase, &workspace.ApprovePurchase{
		ID: bought[0].ID, Owner: "ada@example.com", Person: s.who.Person,
	})
	s.does(workspace.KindNotePayment, &workspace.NotePayment{
		ID: bought[0].ID, Result: workspace.PaymentPaid, Payment: "pi", Card: "card",
	})
	require.Equal(t, 303, start(pages[0], "runs").status)
	a := start(pages[1], "none is left")
	require.Equal(t, 402, a.status, a.body)
	require.Contains(t, a.body, "Nothing was charged. Buy a run on the page Purchases")
	require.Contains(t, a.body, "$5.00: no run is left, so you buy one first")
	require.Contains(t, a.body, "$5.00 of your cap of $50.00")
	bought, _ = s.Machine.Purchases(ws, workspace.Page{Limit: 10})
	require.Len(t, bought, 1)
}

// TestWhatAnUnclearProofMeans: the page uses the quote's words.
func TestWhatAnUnclearProofMeans(t *testing.T) {
	s, ws := mine(t)
	const flows = owner.Root + "/flows"
	text := hidden(t, s.sees(flows+"/new"), "id")
	require.Equal(t, 303, s.sends(flows, draftOf(text, "credential", "bearer")...).status)
	id, _ := workspaceapi.NounFlow.Parse(text)
	s.does(workspace.KindNotePreflight, &workspace.NotePreflight{
		Workspace: ws, ID: id, Version: 1, NoKey: workspace.CalledUnclear,
		WrongKey: workspace.CalledUnclear,
	})
	require.Contains(t, s.sees(flows+"/"+text+"/start"), "without a key: unclear; with a wrong key: unclear. Without a key, or")
}

// TestWhatARunWouldCost: a free run shows how many are left, and one of the agent that does nothing
// costs nothing.
func TestWhatARunWouldCost(t *testing.T) {
	s, _ := mine(t)
	const flows = owner.Root + "/flows"
	for agent, wanted := range map[string]string{
		"": "nothing: a free run of this month (5 left)", "nop": "<dd>nothing. The charge for a run that proves nothing",
	} {
		id := hidden(t, s.sees(flows+"/new"), "id")
		require.Equal(t, 303, s.sends(flows, draftOf(id, "agent", agent)...).status)
		require.Contains(t, s.sees(flows+"/"+id+"/start"), wanted)
	}
}

// shown are the fields of the form that buys, as its page has them.
func shown(t *testing.T, body string) []string {
	t.Helper()
	fields := []string{
		"runs", hidden(t, body, "runs"), "cents", hidden(t, body, "cents"),
		"_once", hidden(t, body, "_once"),
	}
	if strings.Contains(body, `name="asks"`) {
		fields = append(fields, "asks", hidden(t, body, "asks"))
	}
	return fields
}

// paysWithCard has a purchase approved and paid, which saves the card.
func (s *site) paysWithCard(purchase [16]byte) {
	s.t.Helper()
	s.does(workspace.KindApprovePurchase, &workspace.ApprovePurchase{
		ID: purchase, Owner: "ada@example.com", Person: s.who.Person,
	})
	s.does(workspace.KindNotePayment, &workspace.NotePayment{
		ID: purchase, Result: workspace.PaymentPaid, Payment: "pi", Card: "card",
	})
}

// TestWhatIsShownIsBought: where the price is another than was shown, or the card would be charged
// without the approval that was promised, or the other way round, the question is asked again, and
// that one buys.
func TestWhatIsShownIsBought(t *testing.T) {
	s, ws := mine(t)
	const purchases = owner.Root + "/purchases"
	bought := func() []workspace.PurchaseView {
		list, _ := s.Machine.Purchases(ws, workspace.Page{Limit: 10})
		return list
	}
	ask := func(once string) string { return s.sees(purchases + "/buy?runs=2&once=" + once) }
	require.Equal(t, 303, s.sends(purchases, shown(t, ask("first"))...).status)
	s.paysWithCard(bought()[0].ID)
	pause := func(paused bool) {
		s.does(workspace.KindSetBilling,
			&workspace.SetBilling{Workspace: ws, HasPaused: true, Paused: paused, Person: true})
	}
	for _, c := range []struct {
		name, button  string
		before, after func()
	}{
		{"price", "Request 2 runs for $12.00</button>", func() { pause(true) }, func() {
			policy := s.Machine.Policy()
			policy.RunCents += 100
			s.does(workspace.KindSetPolicy, &policy)
		}},
		{"paused", "Request 2 runs for $12.00</button>", func() { pause(false) }, func() { pause(true) }},
		{"unpaused", "Buy 2 runs for $12.00</button>", func() {}, func() { pause(false) }},
	} {
		c.before()
		before, body := len(bought()), ask(c.name)
		c.after()
		a := s.sends(purchases, shown(t, body)...)
		require.Equal(t, 409, a.status, "%s: %s", c.name, a.body)
		require.Contains(t, a.body, "Nothing was bought", c.name)
		require.Contains(t, a.body, c.button, c.name)
		require.Len(t, bought(), before, c.name)
		if c.name == "unpaused" { // the card's answer would be waited for
			break
		}
		a = s.sends(purchases, shown(t, a.body)...)
		require.Equal(t, 303, a.status, "%s: %s", c.name, a.body)
		require.Len(t, bought(), before+1, c.name)
		s.paysWithCard(bought()[0].ID)
	}
}

// TestAnOwnerBuysAhead: a number of runs that there is, once, at the price that is shown.
func TestAnOwnerBuysAhead(t *testing.T) {
	s, ws := mine(t)
	const purchases = owner.Root + "/purchases"
	for _, runs := range []string{"", "0", "11", "x", "-1"} {
		a := s.sends(purchases, "runs", runs)
		require.Equal(t, 400, a.status, runs)
		require.Contains(t, a.body, "runs must be a whole number from 1 to 10", runs)
	}
	bought := func() []workspace.PurchaseView {
		list, _ := s.Machine.Purchases(ws, workspace.Page{Limit: 10})
		return list
	}
	// buy sends the form twice, and twice the question that it asks.
	buy := func(runs, price, paid string) {
		before := len(bought())
		var body string
		for range 2 {
			a := s.sends(purchases, "runs", runs, "_once", "buys "+runs)
			require.Equal(t, 303, a.status, a.body)
			ask := string(a.header.Peek("Location"))
			require.Contains(t, ask, purchases+"/buy?")
			body = s.sees(ask)
			require.Contains(t, body, paid)
			require.Contains(t, body, "Buy "+runs+" runs for "+price+"?")
			require.Contains(t, body, runs+" runs for "+price+"</button>")
			require.Len(t, bought(), before, "asking buys nothing")
		}
		for range 2 {
			a := s.sends(purchases, shown(t, body)...)
			require.Equal(t, 303, a.status, a.body)
			require.Contains(t, string(a.header.Peek("Location")), purchases+"/pur_")
		}
		require.Len(t, bought(), before+1)
		require.Equal(t, price, page.Cents(bought()[0].Cents))
		body = s.sees(purchases + "/buy?runs=" + runs + "&once=buys+" + runs)
		require.NotContains(t, body, "confirm-buy", "another one would buy nothing")
		require.Contains(t, body, `id="open-purchase" href="`+purchases+"/"+
			workspaceapi.NounPurchase.Text(bought()[0].ID)+`"`)
	}
	buy("3", "$15.00", "after you have approved it, on the next page. No card is saved yet.")
	require.EqualValues(t, 3, bought()[0].Runs)
	s.paysWithCard(bought()[0].ID)
	buy("2", "$10.00", "by the saved card, at once")
	s.does(workspace.KindNotePayment, &workspace.NotePayment{
		ID: bought()[0].ID, Result: workspace.PaymentPaid, Payment: "pi 2", Card: "card",
	})
	require.Contains(t, s.sees(purchases+"/buy?runs=8"), "The run would go over the monthly cap.")
	for _, wrong := range []string{"?runs=0", "?runs=11", "?runs=x"} {
		require.Equal(t, 404, s.ask("GET", purchases+"/buy"+wrong, nil).status, wrong)
	}
}

// TestAnOwnerInspects: the page of the run that read the product.
func TestAnOwnerInspects(t *testing.T) {
	s, _ := mine(t)
	const inspections = owner.Root + "/inspections"
	a := s.sends(inspections, "url", "ftp://acme.example/")
	require.Equal(t, 400, a.status, a.body)
	for range 2 {
		a = s.sends(inspections, "url", "https://acme.example/")
		require.Equal(t, 303, a.status, a.body)
	}
	at := string(a.header.Peek("Location"))
	require.Contains(t, s.sees(at), "What an agent finds")
	require.Equal(t, 1, strings.Count(s.sees(inspections), "/console/runs/run_"))
}

// TestAFlowSaysWhatIsNext: one that was just saved was not called yet, which is not a fault of it.
func TestAFlowSaysWhatIsNext(t *testing.T) {
	s, ws := mine(t)
	id := workspaceapi.NewFlow()
	s.does(workspace.KindSaveFlow, &workspace.SaveFlow{
		Workspace: ws, ID: id, Document: workspace.FlowDocument{
			Name: "a key", URL: "https://acme.example/", Task: "t", SuccessCriteria: "c",
			Access: "public", Credential: "bearer", VerificationURL: "https://acme.example/me",
		},
	})
	page := owner.Root + "/flows/" + workspaceapi.NounFlow.Text(id)
	require.Contains(t, s.sees(page), "has not been called yet")
	s.does(workspace.KindNotePreflight, &workspace.NotePreflight{
		Workspace: ws, ID: id, Version: 1, NoKey: workspace.CalledRefused,
		WrongKey: workspace.CalledAccepted,
	})
	require.Contains(t, s.sees(page), "proves nothing as it is")
}
