package billing_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/wire"
)

// lived is a machine in which every kind of record exists: ada was upgraded and has a credit, a
// closed span with usage, corrections, pools with grants that expire, a payment and a kept request;
// bob is of another account.
func lived(t *testing.T) *billing.Machine {
	t.Helper()
	m := billing.New(billing.Config{})
	l := enginetest.NewLog(m, enginetest.Epoch)
	src := &enginetest.Source{Journal: m.Journal()}
	done := func(kind engine.Kind, c wire.Fielder) {
		t.Helper()
		r := l.Do(kind, c)
		require.False(t, r.Outcome.Refused(), "%T: %s", c, r.Outcome)
		src.Keep(&l.Applied)
	}
	doc := lifecyclePlans()
	doc.Plans[0].Features[1].Pricing.Credits = billing.CreditsDocument{
		Pool: "first", Weight: decimal.FromInt(1),
	}
	enginetest.NewAccount(l, doc)
	enginetest.NewCustomer(l, "ada", "llm-team")
	enginetest.NewCustomer(l, "eve", "")
	sub := enginetest.ID("subscription ada llm-team")
	for i, name := range []string{"first", "second"} {
		id := enginetest.ID("pool " + name)
		done(billing.KindCreatePool, &billing.CreatePool{
			Env: enginetest.Sandbox, ID: id, Customer: []string{"ada", "eve"}[i], Name: name,
		})
	}
	done(billing.KindGrantCredits, &billing.GrantCredits{
		Env: enginetest.Sandbox, ID: enginetest.ID("grant"), Pool: enginetest.ID("pool first"),
		Amount: decimal.FromInt(1000), ExpiresAt: l.Stamp + 365*dayMS, Actor: "operator",
	})
	for i := range 4 {
		done(billing.KindRecordUsage, enginetest.Usage(l, fmt.Sprint("k", i), "ada",
			[]string{"input-tokens", "output-tokens"}[i%2], 100))
	}
	for i := range 2 {
		key := billing.UsageKey(enginetest.Sandbox, fmt.Append(nil, "k", i))
		ref, found, err := m.FindUsage(src, src, enginetest.Sandbox, key)
		require.NoError(t, err)
		require.True(t, found)
		done(billing.KindVoidUsage, &billing.VoidUsage{
			Env: enginetest.Sandbox, Key: key, Original: ref,
		})
	}
	done(billing.KindRecordPayment, &billing.RecordPayment{
		Env: enginetest.Sandbox, InvoiceID: enginetest.ID("invoice ada llm-team"), EventID: "e",
		Provider: billing.ProviderSandbox, Amount: decimal.FromInt(20), Currency: "USD",
	})
	done(billing.KindOnce, &billing.Once{
		Env: enginetest.Sandbox, Key: enginetest.ID("key"), Kind: billing.KindCancelSubscription,
		Payload: wire.Encode(nil, &billing.CancelSubscription{
			Env: enginetest.Sandbox, ID: sub, Mode: billing.CancelAtPeriodEnd,
		}),
	})
	done(billing.KindRevertCancellation, &billing.RevertCancellation{
		Env: enginetest.Sandbox, ID: sub,
	})
	for i, plan := range []string{"grow", "llm-team", "grow"} {
		l.Stamp += dayMS
		change := billing.ChangePlan{
			Env: enginetest.Sandbox, ID: sub, ChangeID: enginetest.ID(fmt.Sprint("change", i)),
			Plan: plan, Type: billing.ChangeUpgrade,
		}
		if i == 2 {
			change.Type = billing.ChangeDowngrade
		}
		done(billing.KindChangePlan, &change)
	}
	return m
}

// TestRestoreRefusesWhatDoesNotFit: a snapshot whose checksums are right, of a state that no log
// leads to, is refused by name, and the machine that should have taken it is as it was.
func TestRestoreRefusesWhatDoesNotFit(t *testing.T) {
	sound := enginetest.Snapshot(t, lived(t))
	target := billing.New(billing.Config{})
	require.NoError(t, target.Restore(bytes.NewReader(sound)))
	require.True(t, bytes.Equal(sound, enginetest.Snapshot(t, target)))
	var wrong []string
	for says, damage := range billing.Damages() {
		m := lived(t)
		damage(m)
		err := target.Restore(bytes.NewReader(enginetest.Snapshot(t, m)))
		if !errors.Is(err, billing.ErrSnapshot) || !strings.Contains(err.Error(), ": "+says) {
			wrong = append(wrong, fmt.Sprintf("%s: %v", says, err))
		}
		require.True(t, bytes.Equal(sound, enginetest.Snapshot(t, target)), says)
	}
	require.Empty(t, wrong)
}
