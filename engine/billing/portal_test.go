package billing_test

import (
	"bytes"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
)

// TestPortalLinksEnd: links end with a revocation of their customer's and with the key that made
// them, on every node that restores; those that are made later stand, and so do others'.
func TestPortalLinksEnd(t *testing.T) {
	m := billing.New(billing.Config{})
	l := enginetest.NewLog(m, enginetest.Epoch)
	enginetest.NewAccount(l, enginetest.TokenPlan())
	for _, name := range []string{"ada", "ben"} {
		enginetest.NewCustomer(l, name, "llm-team")
	}
	const env = enginetest.Sandbox
	row := func(name string) uint32 { return m.CustomerRow(env, []byte(name)) }
	key := enginetest.ID("portal key")
	l.Do(billing.KindCreateKey, &billing.CreateKey{
		Env: env, ID: key, Hash: [32]byte{7}, Scope: billing.ScopeFull,
	})
	made := l.Stamp
	stands := func(name string, key [16]byte, at int64) bool {
		return m.PortalLinkStands(env, row(name), key, at)
	}
	require.True(t, stands("ada", key, made))
	require.True(t, stands("ada", [16]byte{}, made))
	require.False(t, stands("ada", enginetest.ID("no key"), made))
	require.False(t, m.PortalLinkStands(99, row("ada"), [16]byte{}, made))

	revoke := func(name string) engine.Outcome {
		return l.Do(billing.KindRevokePortalLinks, &billing.RevokePortalLinks{
			Env: env, Customer: name, Actor: "eve",
		}).Outcome
	}
	require.Equal(t, engine.OutcomeDone, revoke("ada"))
	require.Equal(t, engine.OutcomeCustomerUnknown, revoke("nobody"))
	restored := billing.New(billing.Config{})
	require.NoError(t, restored.Restore(bytes.NewReader(enginetest.Snapshot(t, m))))
	require.Equal(t, enginetest.Snapshot(t, m), enginetest.Snapshot(t, restored))
	for _, m := range []*billing.Machine{m, restored} {
		require.False(t, m.PortalLinkStands(env, row("ada"), key, made))
		require.True(t, m.PortalLinkStands(env, row("ben"), key, made))
		require.False(t, m.PortalLinkStands(env, row("ada"), key, l.Stamp+1), "made at that stamp")
	}
	// Links and ends in turns, all at one stamp.
	ada, _ := m.Customer(env, "ada")
	for range 3 {
		later := m.PortalLinkDate(env, ada.ID)
		require.True(t, stands("ada", key, later))
		require.Equal(t, engine.OutcomeDone, revoke("ada"))
		require.False(t, stands("ada", key, later))
	}
	l.Do(billing.KindRevokeKey, &billing.RevokeKey{Env: env, ID: key})
	require.False(t, stands("ben", key, made))
	require.True(t, stands("ben", [16]byte{}, made))
}

// TestEndedPortalLinksAreBounded: where too many customers' links were ended lately, all end; what
// is older than any link is forgotten.
func TestEndedPortalLinksAreBounded(t *testing.T) {
	m := billing.New(billing.Config{})
	l := enginetest.NewLog(m, enginetest.Epoch)
	enginetest.NewAccount(l, enginetest.TokenPlan())
	const env, many = enginetest.Sandbox, 10_001
	for i := range many + 1 {
		name := "c" + strconv.Itoa(i)
		l.Do(billing.KindCreateCustomer, &billing.CreateCustomer{
			Env: env, ID: enginetest.ID(name), ExternalID: name, FirstName: "A", LastName: "B",
			Email: "a@b.example",
		})
		if i < many {
			l.Do(billing.KindRevokePortalLinks, &billing.RevokePortalLinks{Env: env, Customer: name})
		}
	}
	last := m.CustomerRow(env, []byte("c10001"))
	require.False(t, m.PortalLinkStands(env, last, [16]byte{}, l.Stamp+1), "all were ended")
	require.True(t, m.PortalLinkStands(env, last, [16]byte{},
		m.PortalLinkDate(env, enginetest.ID("c10001"))))
	size := len(enginetest.Snapshot(t, m))
	l.Stamp += billing.MaxPortalLinkMS + 1
	l.Do(billing.KindRevokePortalLinks, &billing.RevokePortalLinks{Env: env, Customer: "c0"})
	require.Less(t, len(enginetest.Snapshot(t, m)), size+200)
}

// TestThePortalsLookIsKept in snapshots; it leaves one record, and has a bound.
func TestThePortalsLookIsKept(t *testing.T) {
	m := billing.New(billing.Config{})
	l := enginetest.NewLog(m, enginetest.Epoch)
	enginetest.NewAccount(l, enginetest.TokenPlan())
	look := billing.Portal{Colour: "#17645a", LogoMedia: "image/png", Logo: []byte("PNG")}
	set := func(env uint32, p billing.Portal) engine.Outcome {
		return l.Do(billing.KindSetPortal, &billing.SetPortal{Env: env, Portal: p, Actor: "ada"}).Outcome
	}
	require.Equal(t, engine.OutcomeAccountUnknown, set(99, look))
	require.Equal(t, engine.OutcomeTooLarge,
		set(enginetest.Sandbox, billing.Portal{Logo: make([]byte, billing.MaxPortalLogo+1)}))
	require.Equal(t, engine.OutcomeDone, set(enginetest.Sandbox, look))
	require.Equal(t, engine.OutcomeDone, set(enginetest.Sandbox, look), "again")
	changes, _, err := m.Changes(&enginetest.Source{Journal: m.Journal()}, billing.ChangeQuery{
		Limit: 2, Scan: 2,
	})
	require.NoError(t, err)
	require.Equal(t, "portal.set", changes[0].Action)
	require.NotEqual(t, "portal.set", changes[1].Action)
	restored := billing.New(billing.Config{})
	require.NoError(t, restored.Restore(bytes.NewReader(enginetest.Snapshot(t, m))))
	require.Equal(t, look, restored.PortalLook(enginetest.Sandbox))
	require.Zero(t, restored.PortalLook(enginetest.Sandbox+1))
	require.Zero(t, restored.PortalLook(99))
}
