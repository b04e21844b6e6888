package billing_test

import (
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/idempotency"
	"tollgate/engine/wire"
)

// addGolden writes golden files that do not exist yet. Those that exist are never written: a
// change of bytes that are in somebody's log or snapshot is a new format, not a new golden.
var addGolden = flag.Bool("add-golden", false, "write golden files that are missing")

const goldenFolder = "../testdata/golden"

// goldens are the bytes of every command and of every record of a snapshot.
func goldens() map[string][]byte {
	all := billing.Golden()
	id := enginetest.ID
	for name, c := range map[string]wire.Fielder{
		"command-18-create-account": &billing.CreateAccount{ID: id("a"), Name: "acme"},
		"command-19-create-key": &billing.CreateKey{
			Env: 2, ID: id("k"), Hash: [32]byte{1, 2, 3}, Scope: billing.ScopeRead, Label: "ci",
			Hint: "sk_live_ab", Actor: "admin",
		},
		"command-20-revoke-key":    &billing.RevokeKey{Env: 2, ID: id("k"), Actor: "admin"},
		"command-21-apply-catalog": goldenCatalog(),
		"command-22-create-customer": &billing.CreateCustomer{
			Env: 1, ID: id("c"), ExternalID: "ada", FirstName: "Ada", LastName: "Lovelace",
			Email: "ada@example.com", PhoneNumber: "+44 1", Address: "London",
		},
		"command-23-create-subscription": &billing.CreateSubscription{
			Env: 1, ID: id("s"), InvoiceID: id("i"), Customer: "ada", Plan: "pro", GraceDays: 7,
		},
		"command-200-reserve": &billing.Reserve{
			Env: 1, ID: id("r"), Key: [16]byte{1, 2}, KeyText: "call-1", Body: 7, Customer: "ada",
			Items: []billing.ReserveItem{
				{FeatureKey: "calls", Units: decimal.FromInt(75)},
				{
					FeatureID: id("f"), Units: decimal.FromInt(2), HasCost: true,
					Cost: decimal.MustParse("0.02"),
				},
			},
			TTLMS: 600_000, RefuseOverrun: true, SettleOnExpiry: true, Meta: []byte(`{"a":1}`),
		},
		"command-200-reserve-part": &billing.Reserve{
			Env: 1, ID: id("r"), Key: [16]byte{1, 2}, KeyText: "call-2", CustomerID: id("c"),
			Items: []billing.ReserveItem{{FeatureKey: "calls", Units: decimal.FromInt(75)}},
			TTLMS: 1000, Partial: true, DryRun: true,
		},
		"command-200-reserve-budget": &billing.Reserve{
			Env: 1, ID: id("r"), Key: [16]byte{1, 2}, KeyText: "call-3", Customer: "ada",
			Items: []billing.ReserveItem{{FeatureKey: "calls", Units: decimal.FromInt(75)}},
			TTLMS: 1000, Budget: "team:search", KeyBudget: 70000,
		},
		"command-201-settle-reservation": &billing.SettleReservation{
			Env: 1, ID: id("r"), Partial: true, EventKey: "event-1", Key: [16]byte{3},
			Items: []billing.SettleItem{{
				FeatureKey: "calls", FeatureID: id("f"), Units: decimal.FromInt(70), HasCost: true,
				Cost: decimal.FromInt(1),
			}},
			OccurredAt: enginetest.Epoch, Meta: []byte(`{}`), Through: 9, Found: true, Number: 4,
			Originals: []billing.UsageRef{{Index: 5, Position: 1, Owner: 2, Hash: 3, Event: 4}},
		},
		"command-202-extend-reservation": &billing.ExtendReservation{
			Env: 1, ID: id("r"), Units: decimal.FromInt(100), TTLMS: 60_000,
		},
		"command-201-settle-reservation-budget": &billing.SettleReservation{
			Env: 1, ID: id("r"), Items: []billing.SettleItem{{Units: decimal.FromInt(70)}},
			KeyBudget: 70000, Bindings: 9,
		},
		"command-201-settle-reservation-own": &billing.SettleReservation{
			Env: 1, ID: id("r"), Items: []billing.SettleItem{{Units: decimal.FromInt(70)}},
			Own: billing.FirstEventKey(1, id("r")),
		},
		"command-202-extend-reservation-budget": &billing.ExtendReservation{
			Env: 1, ID: id("r"), TTLMS: 60_000, KeyBudget: 70000, Bindings: 9,
		},
		"command-203-release-reservation-budget": &billing.ReleaseReservation{
			Env: 1, ID: id("r"), KeyBudget: 70000, Bindings: 9,
		},
		"command-203-release-reservation": &billing.ReleaseReservation{Env: 1, ID: id("r")},
		"command-203-release-reservation-operator": &billing.ReleaseReservation{
			Env: 1, ID: id("r"), Actor: "admin",
		},
		"command-25-set-limits-with-holds": &billing.SetLimits{
			CustomerHolds: 10, EnvironmentHolds: 1000, HoldMS: 3_600_000,
		},
		"command-180-note-membership": &billing.NoteMembership{
			Actor: "admin-key", Action: "member.joined", Node: "node4", Raft: "10.0.0.4:7080",
			HTTP: "10.0.0.4:8080", Ops: "10.0.0.4:9080",
		},
		"command-56-administer": &billing.Administer{
			Actor: "olga@example.com", Kind: billing.KindMarkInvoicePaid,
			Payload: wire.Encode(nil, &billing.MarkInvoicePaid{Env: 1, ID: id("i")}),
		},
		"command-24-mark-invoice-paid": &billing.MarkInvoicePaid{Env: 1, ID: id("i")},
		"command-25-set-limits": &billing.SetLimits{
			KeyRetentionMS: 604800000, WindowMS: 86400000, MaxKeys: 1 << 26,
		},
		"command-25-set-limits-with-audits": &billing.SetLimits{AuditRetentionMS: 2592000000},
		"command-32-cancel-subscription": &billing.CancelSubscription{
			Env: 1, ID: id("s"), Mode: billing.CancelAtPeriodEnd,
		},
		"command-33-revert-cancellation": &billing.RevertCancellation{Env: 1, ID: id("s")},
		"command-34-change-plan": &billing.ChangePlan{
			Env: 1, ID: id("s"), ChangeID: id("p"), Plan: "pro", Type: billing.ChangeDowngrade,
		},
		"command-35-cancel-plan-change": &billing.CancelPlanChange{Env: 1, ID: id("s")},
		"command-37-void-invoice":       &billing.VoidInvoice{Env: 1, ID: id("i")},
		"command-38-void-usage": &billing.VoidUsage{
			Env: 1, Key: id("k"), Reason: "twice", Original: goldenRef(),
		},
		"command-39-amend-usage": &billing.AmendUsage{
			Env: 1, Key: id("k"), Units: decimal.FromInt(3), Reason: "less", Original: goldenRef(),
			ID: id("r"),
		},
		"command-191-demote-keys": &billing.DemoteKeys{Through: 1 << 40},
		"command-38-void-usage-numbered": &billing.VoidUsage{
			Env: 1, Key: id("k"), Original: billing.UsageRef{Index: 9, Event: 1 << 33},
		},
		"command-25-set-limits-reservations": &billing.SetLimits{MaxReservations: 1 << 22},
		"command-25-set-limits-in-memory":    &billing.SetLimits{MaxKeysInMemory: 1 << 25},
		"command-40-advance-clock":           &billing.AdvanceClock{Env: 1, To: 1769871600000},
	} {
		all[name] = wire.Encode(nil, c)
	}
	for name, c := range goldenPlatform() {
		all[name] = wire.Encode(nil, c)
	}
	for name, c := range goldenWebhooks() {
		all[name] = wire.Encode(nil, c)
	}
	for name, c := range goldenCredits() {
		all[name] = wire.Encode(nil, c)
	}
	for name, c := range goldenBudgets() {
		all[name] = wire.Encode(nil, c)
	}
	all["command-17-record-usage-with-budget"] = (&billing.RecordUsage{
		Env: 1, Key: billing.UsageKey(1, []byte("key-1")), Attempt: 1, KeyText: []byte("key-1"),
		Customer: []byte("ada"), EventName: []byte("tokens"), Units: decimal.FromInt(1),
		OccurredAt: 1769871600000, Budget: []byte("team:search"), KeyBudget: 70000,
	}).Seal(nil)
	all["text-delivery"] = billing.GoldenDeliveryText(*goldenMessage())
	all["text-webhook-endpoint"] = billing.GoldenEndpointText()
	all["command-1-tick"] = nil
	all["command-3-hand-over"] = engine.AppendHandOver(nil, engine.HandOver{Term: 7, Target: "node2"})
	all["command-4-set-version"] = engine.AppendSetVersion(nil, 1)
	all["command-2-check-state"] = engine.AppendCheckState(nil, engine.CheckState{
		Index: 9, Hash: 1 << 60,
	})
	all["command-16-record-audits"] = goldenBlock().Encode(nil)
	figures := goldenBlock()
	figures.Add(&billing.AuditCheck{
		Env: 1, CustomerRow: 5, FeatureNumber: 3, Reason: billing.ReasonBudgetExceeded,
		At: 1769871600002, Figures: billing.CheckFigures{
			Limited: true, Used: decimal.FromInt(30), Held: decimal.FromInt(0), Limit: decimal.FromInt(31),
			Asked: decimal.FromInt(2), Budget: "team",
		},
	})
	all["command-16-record-audits-figures"] = figures.Encode(nil)
	for name, v := range map[string]idempotency.Verdict{
		"command-192-record-probed-usage": {Through: 1 << 33},
		"command-192-record-probed-usage-found": {
			Through: 1 << 33, Found: true, Number: 1 << 32,
			Slot: idempotency.Slot{Attempt: 7, Fingerprint: 0xfedcba, Outcome: 3},
		},
	} {
		all[name] = billing.AppendProbedUsage(nil, []byte{8, 1}, &v)
	}
	all["command-17-record-usage"] = (&billing.RecordUsage{
		Env: 1, Key: billing.UsageKey(1, []byte("key-1")), Attempt: 0xfeedface,
		KeyText: []byte("key-1"), Customer: []byte("ada"), CustomerID: id("c"),
		EventName: []byte("tokens"), FeatureKey: []byte("tokens"), FeatureID: id("f"),
		Units: decimal.MustParse("12.5"), OccurredAt: 1769871600000,
		Cost: decimal.MustParse("0.000000000001"), HasCost: true, SubscriptionID: id("s"),
		EntitlementID: id("e"), InvoiceID: id("i"), FlowID: []byte("flow"), Meta: []byte(`{"a":1}`),
	}).Seal(nil)
	return all
}

func goldenRef() billing.UsageRef {
	return billing.UsageRef{Index: 9, Position: 2, Owner: 7, Hash: 1 << 60, Payload: []byte{1, 2}}
}

func goldenCatalog() *billing.ApplyCatalog {
	doc := enginetest.TokenPlan()
	p := &doc.Plans[0]
	p.Description, p.BillingTiming, p.Status = "for a team", "IN_ARREARS", "DRAFT"
	p.Metadata = []byte(`{"tier":1}`)
	doc.Features[0].Description = "every call"
	p.Features[0].Pricing = billing.PricingDocument{
		Model: "package", UnitLabel: "call", IncludedUnits: decimal.FromInt(10),
		ResetMode: "accumulate", LimitMode: "hard", PackageSize: decimal.FromInt(100),
		PricePerPackage: decimal.FromInt(3),
	}
	p.Features[1].Pricing.Tiers[0].FlatFee = decimal.FromInt(1)
	c := enginetest.ApplyCatalog(1, doc)
	c.Prune, c.Actor = true, "admin"
	return c
}

func goldenBlock() *billing.AuditBlock {
	var b billing.AuditBlock
	b.Reset(1, 1769871600000, 42)
	b.Add(&billing.AuditCheck{
		Env: 1, CustomerRow: 70000, FeatureNumber: 3, Reason: billing.ReasonAllowed,
		At: 1769871600000,
	})
	b.Add(&billing.AuditCheck{
		Env: 1, CustomerRow: 5, FeatureNumber: 3, Reason: billing.ReasonAllowed, At: 1769871600001,
	})
	b.Add(&billing.AuditCheck{
		Env: 2, CustomerText: []byte("nobody"), FeatureText: []byte("nothing"),
		Reason: billing.ReasonCustomerUnknown, At: 1769871599999,
		IdempotencyKey: []byte("key"), FlowID: []byte("flow"),
	})
	return &b
}

func TestGoldens(t *testing.T) {
	all := goldens()
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		path := filepath.Join(goldenFolder, name+".hex")
		if _, err := os.Stat(path); *addGolden && os.IsNotExist(err) {
			require.NoError(t, os.WriteFile(path, []byte(broken(all[name])), 0o600))
		}
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		want, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
		require.NoError(t, err)
		require.Equal(t, hex.EncodeToString(want), hex.EncodeToString(all[name]), name)
		if strings.HasPrefix(name, "snapshot-") {
			again, err := billing.GoldenRestored(name, want)
			require.NoError(t, err, name)
			require.Equal(t, want, again, name)
		}
	}
	files, err := filepath.Glob(goldenFolder + "/*.hex")
	require.NoError(t, err)
	require.Len(t, files, len(names), "a golden without a test, or a test without a golden")
}

// broken writes hexadecimal in lines of 32 bytes.
func broken(data []byte) string {
	var b strings.Builder
	for len(data) > 32 {
		b.WriteString(hex.EncodeToString(data[:32]) + "\n")
		data = data[32:]
	}
	b.WriteString(hex.EncodeToString(data) + "\n")
	return b.String()
}

// TestEveryCommandHasAGolden: each kind that the registry knows has its golden file.
func TestEveryCommandHasAGolden(t *testing.T) {
	have := map[int]bool{}
	for name := range goldens() {
		if rest, ok := strings.CutPrefix(name, "command-"); ok {
			number, _, _ := strings.Cut(rest, "-")
			n := 0
			for _, digit := range number {
				n = 10*n + int(digit-'0')
			}
			have[n] = true
		}
	}
	m := billing.New(billing.Config{})
	for kind := range 1000 {
		entry := engine.AppendRecord(engine.AppendHeader(nil, 0), engine.Record{
			Kind: engine.Kind(kind), Payload: []byte{0xff},
		})
		err := m.Apply(1, entry, &engine.Applied{})
		require.ErrorIs(t, err, engine.ErrHalt)
		known := !strings.Contains(err.Error(), "unknown kind")
		require.Equal(t, known, have[kind], "kind %d", kind)
	}
}
