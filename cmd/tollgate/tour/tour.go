// Package tour does what an agent does that meets the workspace API for the first time: it signs
// up, saves a flow, is told to pay, starts a run and watches what the server finds out about it. It
// prints every step as the curl line that does the same, and fails where an answer is not what the
// API promises.
package tour

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	api "tollgate/sdk/go"
)

// Options say where the tour goes.
type Options struct {
	// Out is where steps are printed.
	Out io.Writer
	// Nodes are host:port of the API of some nodes, Ops of their operations listeners.
	Nodes, Ops []string
	AdminKey   string
	// Identity is the address of the provider that signs people and agents in; empty is none.
	Identity string
	// Product is the URL of a product that hands out keys at POST keys and answers GET me to them.
	Product string
}

const (
	// patience bounds every request with its repetitions, and how long a run may take.
	patience = time.Minute
	// every is how often a run is looked at.
	every = 200 * time.Millisecond
	// printed is how much of an answer is printed, in bytes.
	printed = 400
)

// tour is one that is under way.
type tour struct {
	Options
	agent, admin *api.Client
	key          string // the workspace's
	hidden       *strings.Replacer
	steps        int
	workspace    string
	flow         string
}

// Run takes the tour.
func Run(ctx context.Context, o Options) (err error) {
	t := &tour{Options: o, hidden: strings.NewReplacer()}
	if t.agent, err = api.New(o.Nodes, "", 2); err != nil {
		return err
	}
	defer t.agent.Close()
	if t.admin, err = api.New(o.Ops, o.AdminKey, 2); err != nil {
		return err
	}
	defer t.admin.Close()
	t.agent.Patience, t.admin.Patience = patience, patience
	for _, step := range []func(context.Context) error{
		t.signUp, t.saveFlow, t.buyRun, t.runAgent, t.runNothing, t.account,
	} {
		if err = step(ctx); err != nil {
			return err
		}
	}
	t.print("\nThat was all: no step took an agent's word for it.\n")
	t.signIn()
	return nil
}

// signIn says how a person looks at what was done, and how an agent signs in instead of signing up.
func (t *tour) signIn() {
	if t.Identity == "" {
		return // no one can
	}
	t.print("\nLook at it as its owner: open http://%[1]s/login?return=/console in a browser and\n"+
		"sign in as %[2]s, whom the operator has named; any name is believed here.\n"+
		"An agent with an identity of its own signs in at http://%[1]s/login/identity;\n"+
		"its mailbox approves that: POST %[3]s/v0/inboxes/INBOX/authorize\n"+
		"with the mailbox key that tollgate dev prints. http://%[1]s/auth.md says it all.\n",
		t.Nodes[0], owner, t.Identity)
}

// owner is who approves the purchase, and so owns the workspace.
const owner = "ada@example.com"

func (t *tour) print(format string, args ...any) {
	text := t.hidden.Replace(fmt.Sprintf(format, args...))
	if _, err := io.WriteString(t.Out, text); err != nil {
		return // who watched has gone; the tour itself goes on
	}
}

func (t *tour) step(title string) {
	t.steps++
	t.print("\n# %d. %s\n", t.steps, title)
}

// request is a call that is printed as a curl line.
type request struct {
	method, path string
	body         string
	key          string // Idempotency-Key
	admin        bool
	once         bool
	quiet        bool
}

// line is the curl line that sends the same.
func (t *tour) line(r *request) string {
	base, variable := t.Nodes[0], "$KEY"
	if r.admin {
		base, variable = t.Ops[0], "$ADMIN_KEY"
	}
	line := "curl -s"
	if r.method != http.MethodGet {
		line += " -X " + r.method
	}
	if r.admin || t.key != "" {
		line += ` -H "Authorization: Bearer ` + variable + `"`
	}
	if r.key != "" {
		line += " -H 'Idempotency-Key: " + r.key + "'"
	}
	line += " http://" + base + r.path
	if r.body != "" {
		line += " -H 'Content-Type: application/json' -d '" + r.body + "'"
	}
	return line
}

// call sends a request, prints it with its answer, which it decodes into an object, and wants a
// status.
func (t *tour) call(ctx context.Context, want int, r request, into any) error {
	client, header := t.admin, map[string]string{}
	if !r.admin {
		client, header["Authorization"] = t.agent, "Bearer "+t.key
	}
	if r.key != "" {
		header["Idempotency-Key"] = r.key
	}
	sent := api.Request{
		Method: r.method, Path: r.path, Body: []byte(r.body), Header: header, Once: r.once,
	}
	if !r.quiet {
		t.print("$ %s\n", t.line(&r))
	}
	got, err := client.Do(ctx, sent)
	if err != nil {
		return fmt.Errorf("%s %s: %w", r.method, r.path, err)
	}
	if got.Status != want {
		return fmt.Errorf("%s %s: want %d, have %d %s", r.method, r.path, want, got.Status,
			t.hidden.Replace(shortened(string(got.Body))))
	}
	if err = json.Unmarshal(got.Body, into); err != nil {
		return fmt.Errorf("%s %s: %d, and an answer that cannot be read: %w", r.method, r.path,
			got.Status, err)
	}
	if made, is := into.(*api.SignedUp); is {
		t.hide(made)
	}
	if !r.quiet {
		t.print("  %d %s\n", got.Status, shortened(t.hidden.Replace(string(got.Body))))
	}
	return nil
}

func shortened(text string) string {
	if len(text) <= printed {
		return text
	}
	return strings.ToValidUTF8(text[:printed], "") + " …"
}

// hide keeps what signup handed over out of what is printed.
func (t *tour) hide(made *api.SignedUp) {
	pairs := []string{}
	for _, text := range []string{made.Key, made.ClaimCode} {
		if len(text) > 12 {
			pairs = append(pairs, text, text[:12]+"…")
		}
	}
	t.hidden = strings.NewReplacer(pairs...)
}

// want is an error where something is not so.
func want(so bool, what string, a any) error {
	if so {
		return nil
	}
	text, err := json.Marshal(a)
	return errors.Join(fmt.Errorf("want %s, have %s", what, text), err)
}

func (t *tour) signUp(ctx context.Context) error {
	t.step("Sign up, without a person. The key is shown once.")
	var made api.SignedUp
	err := t.call(ctx, 201, request{
		method: "POST", path: "/v1/signup", body: written(api.SignupRequest{Label: "tour"}), once: true,
	}, &made)
	if err != nil {
		return err
	}
	t.key, t.workspace = made.Key, made.Workspace
	return want(t.key != "" && t.workspace != "" && !made.Claimed, "an unclaimed workspace", made)
}

// executor is the name of the agent that is to do it: a program of the operator's where there is
// one, else the first that does anything, which is the built-in one where no other was chosen.
func (t *tour) executor(ctx context.Context) (string, error) {
	var a struct{ Execution api.Execution }
	if err := t.call(ctx, 200, request{method: "GET", path: "/v1/execution"}, &a); err != nil {
		return "", err
	}
	agents := a.Execution.Agents
	at := slices.IndexFunc(agents, func(a api.Agent) bool { return a.Kind == "exec" })
	if at < 0 {
		at = slices.IndexFunc(agents, func(a api.Agent) bool { return a.Kind != "nop" })
	}
	if at < 0 {
		return "", errors.New("the cluster has no agent but the one that does nothing: " +
			"add http to workspaces.agents, or begin with a new folder, tollgate dev")
	}
	return agents[at].Name, nil
}

func (t *tour) saveFlow(ctx context.Context) error {
	t.step("Which agents are there? Save what one of them is to do: a flow.")
	name, err := t.executor(ctx)
	if err != nil {
		return err
	}
	body := written(api.FlowRequest{
		Name: "Get a key", URL: t.Product, Task: "Sign up and obtain an API key.",
		SuccessCriteria: "The key works.", Access: "public", Agent: name, Credential: "bearer",
		Verification: api.FlowVerification{URL: t.Product + "me", Status: 200, Contains: "account"},
	})
	var saved struct{ Flow api.Flow }
	err = t.call(ctx, 201, request{method: "POST", path: "/v1/flows", body: body, once: true}, &saved)
	if err != nil {
		return err
	}
	t.flow = saved.Flow.ID
	return want(t.flow != "", "a flow with an id", saved)
}

// written is a body as JSON. It has no texts but those that are stated here, names and addresses.
func written(body any) string {
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // the client's structs have a JSON form
	}
	return string(text)
}

func (t *tour) quote(ctx context.Context) (api.Quote, error) {
	var a struct{ Quote api.Quote }
	err := t.call(ctx, 200, request{method: "GET", path: "/v1/flows/" + t.flow + "/quote"}, &a)
	return a.Quote, err
}

// start starts a run with the quote's fingerprint.
func (t *tour) start(ctx context.Context, status int, key string, quote *api.Quote) (
	a api.Started, err error,
) {
	return a, t.call(ctx, status, request{
		method: "POST", path: "/v1/flows/" + t.flow + "/run", key: key,
		body: written(api.StartRequest{Fingerprint: quote.Fingerprint}),
	}, &a)
}

// buyRun reads the quote, is told to pay, and has the purchase approved and paid; the owner who
// approves it also becomes the workspace's.
func (t *tour) buyRun(ctx context.Context) error {
	t.step("Read the quote: what it costs, and whether the verification refuses strangers.")
	quote, err := t.quote(ctx)
	if err == nil {
		err = want(quote.Preflight.NoKey == "refused" && quote.Preflight.WrongKey == "refused",
			"a closed verification", quote)
	}
	if err != nil {
		return err
	}
	t.step("Start it. There is no run left, so nothing starts: 402 says what to do.")
	a, err := t.start(ctx, 402, "tour-"+rand.Text(), &quote)
	if err == nil {
		err = want(a.NextAction == "approve" && a.ApprovalURL != "" && a.PollURL != "",
			"a purchase to approve", a)
	}
	if err != nil {
		return err
	}
	purchase := a.Purchase.ID
	t.step("The owner approves it; here the operator does so for them, on the operations listener.")
	var shown struct{ Data api.Tenant }
	err = t.call(ctx, 200, request{
		method: "POST", admin: true, body: `{"owner":"` + owner + `"}`,
		path: "/api/v1/admin/workspaces/" + t.workspace + "/purchases/" + purchase + "/approve",
	}, &shown)
	if err != nil {
		return err
	}
	page := pageOf(&shown.Data, purchase)
	if page == "" { // the provider has not made it yet
		err = t.poll(ctx, request{
			method: "GET", path: "/api/v1/admin/workspaces/" + t.workspace, admin: true,
		}, "data", func(data json.RawMessage) (string, bool, error) {
			var now api.Tenant
			err := json.Unmarshal(data, &now)
			page = pageOf(&now, purchase)
			return "without a payment page", page != "", err
		})
	}
	if err == nil {
		err = t.pay(ctx, page)
	}
	if err != nil {
		return err
	}
	t.step("Poll the purchase until it succeeded.")
	polled := request{method: "GET", path: "/v1/purchases/" + purchase}
	return t.poll(ctx, polled, "purchase", func(data json.RawMessage) (string, bool, error) {
		var now api.Purchase
		err := json.Unmarshal(data, &now)
		switch {
		case err != nil:
		case now.Status != "succeeded" && now.Status != "checkout" && now.Status != "processing":
			err = fmt.Errorf("the purchase is %q", now.Status)
		}
		return now.Status, now.Status == "succeeded", err
	})
}

// pageOf is the payment page of a purchase, as the operator's tool shows it.
func pageOf(shown *api.Tenant, purchase string) string {
	for _, p := range shown.Purchases {
		if p.ID == purchase {
			return p.URL
		}
	}
	return ""
}

// pay fills in the sandbox provider's page, as the owner does in a browser.
func (t *tour) pay(ctx context.Context, page string) (err error) {
	t.step("The owner pays on the page of the sandbox provider, which moves no money.")
	form := url.Values{"attempt": {"tour-" + rand.Text()}, "card": {"success"}}
	t.print("$ curl -s -d '%s' %s\n", form.Encode(), page)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, page,
		strings.NewReader(form.Encode()))
	if err != nil {
		return fmt.Errorf("the payment page: %w", err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	client := http.Client{
		Timeout: patience,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
	paid, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("the payment page: %w", err)
	}
	t.print("  %s\n", paid.Status)
	if paid.StatusCode >= 400 {
		err = fmt.Errorf("the payment page: %s", paid.Status)
	}
	return errors.Join(err, paid.Body.Close())
}

// poll reads a record, without printing each time, until it is done, and prints it then. what names
// the record in the answer; done says how it stands, and whether that is the end.
func (t *tour) poll(ctx context.Context, r request, what string,
	done func(json.RawMessage) (state string, ended bool, err error),
) error {
	r.quiet = true
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		var a map[string]json.RawMessage
		if err := t.call(ctx, 200, r, &a); err != nil {
			return err
		}
		state, ended, err := done(a[what])
		if err != nil {
			return err
		}
		if ended {
			t.print("$ %s\n  200 %s\n", t.line(&r), shortened(t.hidden.Replace(string(a[what]))))
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is still %q: %w", what, state, ctx.Err())
		case <-tick.C:
		}
	}
}
