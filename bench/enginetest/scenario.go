package enginetest

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/wire"
)

// RunBilling plays one scenario file against a fresh billing machine: text commands, and exactly
// what comes of them. `go test ./engine -rewrite` writes the answers anew, to be reviewed as a
// diff. What each command takes and prints stands in engine/DESIGN.md. Whatever a scenario leads
// to, a snapshot of it restores.
func RunBilling(t *testing.T, path string) (entries [][]byte) {
	s := newScenario()
	play(t, path, s, words)
	snapshot := Snapshot(t, s.m)
	m := billing.New(billing.Config{})
	require.NoError(t, m.Restore(bytes.NewReader(snapshot)))
	require.Equal(t, snapshot, Snapshot(t, m))
	return s.log.Entries
}

// play plays a scenario file: each word is looked up, and does something to the state.
func play[S any](t *testing.T, path string, s S, words map[string]func(S, *line) string) {
	datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
		do, ok := words[d.Cmd]
		if !ok {
			d.Fatalf(t, "unknown command %q", d.Cmd)
		}
		line := &line{t: t, d: d}
		answer := do(s, line)
		line.allUsed()
		return strings.TrimRight(answer, "\n") + "\n"
	})
}

var words = map[string]func(*scenario, *line) string{
	"now":          (*scenario).now,
	"limits":       (*scenario).limits,
	"account":      (*scenario).account,
	"key":          (*scenario).key,
	"revoke":       (*scenario).revoke,
	"authenticate": (*scenario).authenticate,
	"catalog":      (*scenario).catalog,
	"plans":        listing("none", (*scenario).plans),
	"features":     listing("none", (*scenario).features),
	"customer":     (*scenario).customer,
	"subscribe":    (*scenario).subscribe,
	"show":         ofCustomer((*scenario).show),
	"event":        (*scenario).event,
	"check":        listing("", (*scenario).check),
	"audit":        (*scenario).audit,
	"events":       ofCustomer((*scenario).events),
	"invoices":     ofCustomer((*scenario).invoices),
	"invoice-list": ofCustomer((*scenario).invoiceList),
	"usage-lines":  ofCustomer((*scenario).usageLines),
	"pay":          (*scenario).pay,
	"stats":        (*scenario).stats,

	"pool":          with(creditLines.pool),
	"grant":         with(creditLines.grant),
	"deduct":        with(creditLines.deduct),
	"freeze":        with(creditLines.freeze),
	"low":           with(creditLines.low),
	"top-up":        with(creditLines.topUp),
	"top-ups":       with(creditLines.topUps),
	"stop-top-up":   with(creditLines.stopTopUp),
	"top-up-result": with(creditLines.topUpResult),
	"end-top-up":    with(creditLines.endTopUp),
	"unfreeze":      with(creditLines.unfreeze),
	"archive-pool":  with(creditLines.archivePool),
	"reverse":       with(creditLines.reverse),
	"pools":         with(ofCustomer(creditLines.pools)),
	"grants":        with(creditLines.grants),
	"transactions":  with(creditLines.transactions),
	"verify-pools":  with(ofCustomer(creditLines.proof)),

	"reserve":     with(reservationLines.reserve),
	"settle-hold": with(reservationLines.settle),
	"extend":      with(reservationLines.extend),
	"release":     with(reservationLines.release),
	"holds":       with(ofCustomer(reservationLines.holds)),

	"subscription":  (*scenario).subscription,
	"cancel":        (*scenario).cancel,
	"revert":        (*scenario).revert,
	"upgrade":       (*scenario).upgrade,
	"downgrade":     (*scenario).downgrade,
	"cancel-change": (*scenario).cancelChange,
	"changes":       (*scenario).changes,
	"settle":        (*scenario).settle,
	"clock":         (*scenario).clock,
	"terms":         (*scenario).terms,
	"void":          (*scenario).void,
	"amend":         (*scenario).amend,
	"upcoming":      (*scenario).upcoming,
	"pending":       ofCustomer((*scenario).pendingInvoices),
	"verify":        ofCustomer((*scenario).verify),
	"pay-number":    ofInvoice((*scenario).payNumber),
	"pay-pending":   (*scenario).payPending,
	"void-invoice":  ofInvoice((*scenario).voidInvoice),
	"provider":      (*scenario).provider,
	"checkout":      ofInvoice((*scenario).checkout),

	"profile":          with(platformLines.profile),
	"person":           with(platformLines.person),
	"archive":          with(platformLines.archive),
	"erase":            with(platformLines.erase),
	"customer-key":     with(platformLines.customerKey),
	"keys":             with(listing("none", platformLines.keys)),
	"set-origins":      with(platformLines.setOrigins),
	"origins":          with(platformLines.origins),
	"once":             with(platformLines.once),
	"payment-provider": with(platformLines.paymentProvider),
	"open-checkout":    with(platformLines.openCheckout),
	"note-checkout":    with(platformLines.noteCheckout),
	"checkouts":        with(listing("none", platformLines.checkouts)),
	"paid":             with(platformLines.paid),
	"payments":         with(listing("none", platformLines.payments)),
	"record":           with(listing("none", platformLines.record)),

	"budget":          with(budgetLines.budget),
	"move-budget":     with(budgetLines.move),
	"freeze-budget":   with(budgetLines.freeze),
	"unfreeze-budget": with(budgetLines.unfreeze),
	"archive-budget":  with(budgetLines.archive),
	"bind":            with(budgetLines.bind),
	"budgets":         with(listing("none", budgetLines.budgets)),
	"windows":         with(listing("none", budgetLines.windows)),

	"hook":     with(webhookLines.hook),
	"hook-set": with(webhookLines.hookSet),
	"unhook":   with(webhookLines.unhook),
	"hooks":    with(listing("none", webhookLines.hooks)),
	"messages": with(webhookLines.messages),
	"deliver":  with(webhookLines.deliver),
	"resend":   with(webhookLines.resend),
	"payment":  ofInvoice((*scenario).payment),
}

// with is the function of a command whose type embeds the scenario.
func with[L ~struct{ *scenario }](f func(L, *line) string) func(*scenario, *line) string {
	return func(s *scenario, l *line) string { return f(L{s}, l) }
}

// scenario is a machine that a text drives.
type scenario struct {
	m      *billing.Machine
	log    *Log
	src    *Source
	env    uint32 // what commands mean when they name no environment
	minted int
}

func newScenario() *scenario {
	m := billing.New(billing.Config{})
	return &scenario{
		m: m, log: NewLog(m, Epoch), src: &Source{Journal: m.Journal()}, env: Sandbox,
	}
}

// line is one command of a scenario.
type line struct {
	t    *testing.T
	d    *datadriven.TestData
	used int
}

// printer is a command that prints a list.
type printer struct {
	*line
	strings.Builder
}

// listing is the function of a command that prints a list; otherwise stands for an empty one.
func listing[S any](otherwise string, f func(S, *printer)) func(S, *line) string {
	return func(s S, l *line) string {
		p := &printer{line: l}
		f(s, p)
		return either(p.String(), otherwise)
	}
}

// customerLine is a command that prints something about the customer that its first word names.
type customerLine struct {
	printer
	env      uint32
	customer billing.CustomerView
}

// ofCustomer is the function of such a command.
func ofCustomer[S interface {
	about(l *line) (*customerLine, bool)
}](f func(S, *customerLine)) func(S, *line) string {
	return func(s S, l *line) string {
		p, ok := s.about(l)
		if !ok {
			return "unknown"
		}
		f(s, p)
		return either(p.String(), "none")
	}
}

func (s *scenario) about(l *line) (*customerLine, bool) {
	p := &customerLine{printer: printer{line: l}, env: s.environment(l)}
	var ok bool
	p.customer, ok = s.m.Customer(p.env, l.word(0))
	return p, ok
}

func (l *line) must(err error) {
	if err != nil {
		l.d.Fatalf(l.t, "%v", err)
	}
}

// word returns the n-th argument without a value.
func (l *line) word(n int) string {
	for _, a := range l.d.CmdArgs {
		if len(a.Vals) != 0 {
			continue
		}
		if n == 0 {
			l.used++
			return a.Key
		}
		n--
	}
	return ""
}

// has reports whether a flag stands in the line.
func (l *line) has(flag string) bool {
	a, ok := l.d.Arg(flag)
	if ok && len(a.Vals) == 0 {
		l.used++
		return true
	}
	return false
}

// value returns key=value, or otherwise when it is not there.
func (l *line) value(key, otherwise string) string {
	a, ok := l.d.Arg(key)
	if !ok || len(a.Vals) == 0 {
		return otherwise
	}
	l.used++
	return strings.Join(a.Vals, ",")
}

func (l *line) number(key string, otherwise int64) int64 {
	text := l.value(key, "")
	if text == "" {
		return otherwise
	}
	var n int64
	if _, err := fmt.Sscan(text, &n); err != nil {
		l.d.Fatalf(l.t, "%s=%s is not a number", key, text)
	}
	return n
}

func (l *line) decimal(key, otherwise string) decimal.Decimal {
	d, err := decimal.Parse(l.value(key, otherwise))
	if err != nil {
		l.d.Fatalf(l.t, "%s: %v", key, err)
	}
	return d
}

// optional returns key=decimal, and whether it is there.
func (l *line) optional(key string) (d decimal.Decimal, ok bool) {
	if ok = l.d.HasArg(key); ok {
		d = l.decimal(key, "")
	}
	return d, ok
}

// span returns key=duration in milliseconds; 0 when it is not there.
func (l *line) span(key string) int64 { return l.duration(l.value(key, "0s")) }

// instantOr returns key=instant, or otherwise when it is not there.
func (l *line) instantOr(key string, now, otherwise int64) int64 {
	if text := l.value(key, ""); text != "" {
		return l.instant(text, now)
	}
	return otherwise
}

// id returns a minted id by its kind and name; zero when the key is not there.
func (l *line) id(key, kind string) [16]byte {
	name := l.value(key, "")
	if name == "" {
		return [16]byte{}
	}
	return ID(kind + name)
}

// duration reads days as well: 8d.
func (l *line) duration(text string) int64 {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n int64
		if _, err := fmt.Sscan(days, &n); err != nil {
			l.d.Fatalf(l.t, "%s is not a duration", text)
		}
		return n * 24 * int64(time.Hour/time.Millisecond)
	}
	d, err := time.ParseDuration(text)
	l.must(err)
	return d.Milliseconds()
}

// instant reads +5m or -5m from the log's time, or a time.
func (l *line) instant(text string, now int64) int64 {
	if text[0] == '+' || text[0] == '-' {
		d := l.duration(text[1:])
		if text[0] == '-' {
			d = -d
		}
		return now + d
	}
	at, err := time.Parse(time.RFC3339, text)
	l.must(err)
	return at.UnixMilli()
}

// allUsed fails when the line says something that the command did not read: a misspelt argument.
func (l *line) allUsed() {
	if l.used < len(l.d.CmdArgs) {
		l.d.Fatalf(l.t, "%d arguments, the command read %d", len(l.d.CmdArgs), l.used)
	}
}

// named is the value of an enum that has a name; zero where none has.
func named[T interface {
	~uint8
	Names() []string
}](name string) T {
	return T(max(0, slices.Index(T.Names(0), name)))
}

// when formats a text where is holds; otherwise it is empty.
func when(is bool, format string, args ...any) string {
	if !is {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

func show(ms int64) string {
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
}

// environment reads env=sandbox, env=live or env=account/live.
func (s *scenario) environment(l *line) uint32 {
	text := l.value("env", "")
	if text == "" {
		return s.env
	}
	account, kind, found := strings.Cut(text, "/")
	if !found {
		account, kind = "acme", text
	}
	env, ok := s.m.Environment(account, named[billing.EnvironmentKind](kind))
	if !ok {
		return 99
	}
	return env
}

// outcome prints the outcome of a command that was applied.
func (s *scenario) outcome(r engine.Result) string {
	s.src.Keep(&s.log.Applied)
	switch r.Outcome {
	case engine.OutcomeBudgetExceeded, engine.OutcomeBudgetFrozen, engine.OutcomeBudgetArchived:
		var refused billing.Refusal
		if len(r.Value) > 0 && wire.Decode(r.Value, &refused) == nil {
			return r.Outcome.String() + " " + refusedText(&refused)
		}
	}
	return r.Outcome.String()
}

// do applies a command and prints its outcome.
func (s *scenario) do(kind engine.Kind, c wire.Fielder) string {
	return s.doPayload(kind, wire.Encode(nil, c))
}

func (s *scenario) doPayload(kind engine.Kind, payload []byte) string {
	return s.outcome(s.log.DoPayload(kind, payload))
}

func (s *scenario) now(l *line) string {
	s.log.Stamp = l.instant(l.word(0), s.log.Stamp)
	s.doPayload(engine.KindTick, nil)
	return show(s.log.Stamp)
}

func (s *scenario) limits(l *line) string {
	c := &billing.SetLimits{
		MaxKeys: uint64(l.number("max-keys", 0)), KeyRetentionMS: l.span("retention"),
		WindowMS: l.span("window"), AuditRetentionMS: l.span("audits"),
	}
	for name, to := range map[string]*uint64{
		"customers": &c.AccountCustomers, "keys": &c.AccountKeys, "catalog": &c.AccountCatalog,
		"webhooks": &c.AccountEndpoints,
	} {
		*to = uint64(l.number(name, 0))
	}
	bounded := c.AccountCustomers+c.AccountKeys+c.AccountCatalog+c.AccountEndpoints > 0
	answer := s.do(billing.KindSetLimits, c)
	got := s.m.Limits()
	if bounded {
		return fmt.Sprintf("%s\n%+v", answer, got.Bounds())
	}
	return fmt.Sprintf("%s\nretention=%s window=%s max-keys=%d audits=%s", answer,
		time.Duration(got.KeyRetentionMS)*time.Millisecond,
		time.Duration(got.WindowMS)*time.Millisecond, got.MaxKeys,
		time.Duration(got.AuditRetentionMS)*time.Millisecond)
}

func (s *scenario) account(l *line) string {
	name := l.word(0)
	return s.do(billing.KindCreateAccount, &billing.CreateAccount{
		ID: ID(l.value("id", "account "+name)), Name: name,
	})
}

func secret(text string) [32]byte { return sha256.Sum256([]byte(text)) }

func (s *scenario) key(l *line) string {
	text := l.word(0)
	return s.do(billing.KindCreateKey, &billing.CreateKey{
		Env: s.environment(l), ID: ID(l.value("id", text)), Hash: secret(text),
		Scope: named[billing.Scope](l.value("scope", "full")), Label: l.value("label", ""),
	})
}

func (s *scenario) revoke(l *line) string {
	return s.do(billing.KindRevokeKey, &billing.RevokeKey{Env: s.environment(l), ID: ID(l.word(0))})
}

func (s *scenario) authenticate(l *line) string {
	p, ok := s.m.Authenticate(secret(l.word(0)))
	if !ok {
		return "unknown"
	}
	return fmt.Sprintf("%s/%s scope=%s", p.Account, p.Environment, p.Scope)
}

func (s *scenario) stats(*line) string {
	n := s.m.Stats()
	return fmt.Sprintf(
		"customers=%d subscriptions=%d counters=%d invoices=%d keys=%d usage=%d audits=%d",
		n.Customers, n.Subscriptions, n.Counters, n.Invoices, n.IdempotencyKeys,
		n.UsageEvents, n.AuditEvents)
}
