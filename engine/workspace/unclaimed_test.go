package workspace_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/wire"
	"tollgate/engine/workspace"
)

const day = 24 * time.Hour

// strangers is a machine where workspaces that nobody claims are kept 14 days, or one day where
// nothing was saved in them, with a workspace for each name, in rows from 1 on.
type strangers struct {
	*bench
	rows map[string]uint32
}

func newStrangers(t *testing.T, names ...string) *strangers {
	m := opened()
	s := &strangers{&bench{t, m, enginetest.NewLog(m, enginetest.Epoch)}, map[string]uint32{}}
	s.log.Shard = 1
	s.keep(14*day, day)
	for _, name := range names {
		s.done(workspace.KindSignUp, s.signUp(name))
		s.rows[name] = m.WorkspaceRow(enginetest.ID("w" + name))
	}
	return s
}

// keep sets how long workspaces are kept.
func (s *strangers) keep(unclaimed, empty time.Duration) {
	policy := workspace.DefaultPolicy()
	policy.SignupsPerHour = 4
	policy.UnclaimedMS, policy.EmptyMS = unclaimed.Milliseconds(), empty.Milliseconds()
	s.done(workspace.KindSetPolicy, &policy)
}

// freely lets one address sign up as often as it likes.
func (s *strangers) freely() {
	policy := s.m.Policy()
	policy.SignupsPerHour = 1 << 20
	s.done(workspace.KindSetPolicy, &policy)
}

func (s *strangers) signUp(name string) *workspace.SignUp {
	return &workspace.SignUp{
		ID: enginetest.ID("w" + name), KeyID: enginetest.ID("k" + name), KeyHash: keyOf(name),
		ClaimHash: keyOf("code " + name), Scopes: workspace.ScopesAll, Label: name,
		Source: enginetest.ID(name),
	}
}

func keyOf(name string) [32]byte { return [32]byte(append(hashOf(name), hashOf("x"+name)...)) }

// works reports whether a workspace's key works.
func (s *strangers) works(name string) bool {
	_, ok := s.m.Authenticate(keyOf(name))
	return ok
}

// save saves all that a stranger can: a flow, a request, a local run, an inspection that is whole,
// one that is not, and a purchase.
func (s *strangers) save(name string) {
	row, flow := s.rows[name], enginetest.ID("flow "+name)
	text := document()
	text.URL += name
	s.done(workspace.KindSaveFlow, &workspace.SaveFlow{Workspace: row, ID: flow, Document: text})
	s.done(workspace.KindRequestRun, &workspace.RequestRun{
		Workspace: row, Flow: flow, ID: enginetest.ID("asked " + name),
	})
	s.done(workspace.KindStartLocalRun, &workspace.StartLocalRun{
		Workspace: row, ID: enginetest.ID("local " + name),
	})
	read := []byte("read by " + name)
	for _, size := range []uint32{uint32(len(read)), 99} {
		s.done(workspace.KindSaveInspection, &workspace.SaveInspection{
			Workspace: row, ID: enginetest.ID(fmt.Sprint(name, " read ", size == 99)),
			Host: "product.example", Kind: workspace.RunInspection, Size: size, Part: read,
			Findings: []workspace.Finding{{Field: "api", Verdict: "yes"}},
		})
	}
	s.done(workspace.KindRequestPurchase, &workspace.RequestPurchase{
		Workspace: row, ID: enginetest.ID("purchase " + name), Runs: 1, Link: keyOf("link " + name),
	})
}

// isGone checks that nothing of a workspace can be reached.
func (s *strangers) isGone(name string, why workspace.Gone) {
	t, row := s.t, s.rows[name]
	t.Helper()
	require.False(t, s.works(name))
	require.Equal(t, why, s.m.GoneKey(keyOf(name)))
	require.NotZero(t, s.m.GoneAt(row))
	_, known := s.m.Account(row, s.log.Stamp)
	require.False(t, known)
	_, known = s.m.Flow(row, enginetest.ID("flow "+name))
	require.False(t, known)
	_, known = s.m.Run(row, enginetest.ID("asked "+name))
	require.False(t, known)
	_, known = s.m.Inspection(row, enginetest.ID(name+" read false"))
	require.False(t, known)
	kept := string(enginetest.Snapshot(t, s.m))
	require.NotContains(t, kept, "product.example/"+name)
	require.NotContains(t, kept, "read by "+name)
	_, known = s.m.Purchase(0, enginetest.ID("purchase "+name))
	require.False(t, known)
	_, known = s.m.PurchaseByLink(keyOf("link " + name))
	require.False(t, known)
	runs, _ := s.m.Runs(row, workspace.Page{Limit: 9})
	require.Empty(t, runs)
	for kind, c := range map[engine.Kind]wire.Fielder{
		workspace.KindClaimWorkspace:  &workspace.ClaimWorkspace{Code: keyOf("code " + name), Owner: "eve"},
		workspace.KindSaveFlow:        &workspace.SaveFlow{Workspace: row, ID: enginetest.ID("more")},
		workspace.KindArchiveFlow:     &workspace.ArchiveFlow{Workspace: row, ID: enginetest.ID("flow " + name)},
		workspace.KindRotateKeys:      &workspace.RotateKeys{Workspace: row},
		workspace.KindStartLocalRun:   &workspace.StartLocalRun{Workspace: row, ID: enginetest.ID("more")},
		workspace.KindApprovePurchase: &workspace.ApprovePurchase{ID: enginetest.ID("purchase " + name)},
		workspace.KindAddInspectionPart: &workspace.AddInspectionPart{
			Run: enginetest.ID(name + " read true"), Part: []byte("def"),
		},
		workspace.KindNoteUse:         &workspace.NoteUse{Workspace: row},
		workspace.KindRemoveWorkspace: &workspace.RemoveWorkspace{Workspace: row},
	} {
		s.refused(engine.OutcomeRecordUnknown, kind, c)
	}
	s.refused(engine.OutcomeRecordUnknown, workspace.KindClaimWorkspace,
		&workspace.ClaimWorkspace{ID: enginetest.ID("w" + name), Owner: "eve"})
	s.refused(engine.OutcomeIDsContradict, workspace.KindSignUp, s.signUp(name))
	tenants, _ := s.m.Tenants(workspace.Page{Limit: 100}, false)
	for _, v := range tenants {
		require.NotEqual(t, enginetest.ID("w"+name), v.ID)
	}
	require.Empty(t, s.m.Broken())
}

// again restores the machine from its own snapshot.
func (s *strangers) again() {
	due := s.m.NextDue()
	s.m = restored(s.t, enginetest.Snapshot(s.t, s.m))
	s.log.Machine = s.m
	require.Equal(s.t, due, s.m.NextDue())
	require.Empty(s.t, s.m.Broken())
}

// TestUnusedWorkspacesGo: a day after its signup one in which nothing was saved, 14 days after its
// last use another; with an owner or with credits none. Their room is free again, their records are
// unknown, and what they asked of their owners is off; also after a restore.
func TestUnusedWorkspacesGo(t *testing.T) {
	s := newStrangers(t, "empty", "saved", "owned", "given")
	s.save("saved")
	s.done(workspace.KindClaimWorkspace, &workspace.ClaimWorkspace{
		ID: enginetest.ID("wowned"), Owner: "ada",
	})
	s.done(workspace.KindGrantCredits, &workspace.GrantCredits{
		Workspace: s.rows["given"], ID: enginetest.ID("gift"), Amount: 1,
	})
	begun, held := s.log.Stamp, s.m.Strangers()
	s.pass(2 * time.Minute) // what was read in part is dropped
	s.again()
	require.InDelta(t, begun+day.Milliseconds(), s.m.NextDue(), 10)
	s.pass(day - 3*time.Minute)
	require.True(t, s.works("empty"))
	s.pass(time.Minute)
	s.isGone("empty", workspace.GoneUnused)
	require.Less(t, s.m.Strangers().Bytes, held.Bytes)
	require.NotZero(t, s.m.Strangers().Gone)

	s.pass(9 * day)
	use := &workspace.NoteUse{Workspace: s.rows["saved"]}
	s.done(workspace.KindNoteUse, use)
	used := s.log.Stamp
	s.again()
	s.pass(13 * day)
	require.True(t, s.works("saved"))
	require.InDelta(t, used+(14*day).Milliseconds(), s.m.NextDue(), 10)
	s.again()
	s.pass(day)
	s.isGone("saved", workspace.GoneUnused)
	s.again()
	s.isGone("saved", workspace.GoneUnused)
	s.isGone("empty", workspace.GoneUnused)
	s.pass(400 * day)
	require.True(t, s.works("owned"))
	require.True(t, s.works("given"))
	require.Zero(t, s.m.NextDue())
}

// TestUsesAreNotedByTheHour: what a key does within the hour leaves no trace, and the principal
// says from when on it does.
func TestUsesAreNotedByTheHour(t *testing.T) {
	s := newStrangers(t, "a", "owned")
	s.done(workspace.KindClaimWorkspace, &workspace.ClaimWorkspace{
		ID: enginetest.ID("wowned"), Owner: "ada",
	})
	p, _ := s.m.Authenticate(keyOf("owned"))
	require.Greater(t, p.NoteFrom, s.log.Stamp, "of the key")
	use := &workspace.NoteUse{Workspace: s.rows["a"], Key: keyOf("a")}
	due := s.m.NextDue()
	s.pass(59 * time.Minute)
	s.done(workspace.KindNoteUse, use)
	require.Equal(t, due, s.m.NextDue())
	p, _ = s.m.Authenticate(keyOf("a"))
	require.Greater(t, p.NoteFrom, s.log.Stamp)
	s.pass(time.Minute)
	require.LessOrEqual(t, p.NoteFrom, s.log.Stamp)
	s.done(workspace.KindNoteUse, use)
	require.InDelta(t, s.log.Stamp+day.Milliseconds(), s.m.NextDue(), 10)
	p, _ = s.m.Authenticate(keyOf("a"))
	require.Greater(t, p.NoteFrom, s.log.Stamp)
}

// TestTheLastUseOfAKey: it is noted by the hour, also of a workspace that has an owner, and of a
// key that works alone.
func TestTheLastUseOfAKey(t *testing.T) {
	s := newStrangers(t, "owned")
	s.done(workspace.KindClaimWorkspace, &workspace.ClaimWorkspace{
		ID: enginetest.ID("wowned"), Owner: "ada",
	})
	use := &workspace.NoteUse{Workspace: s.rows["owned"], Key: keyOf("owned")}
	used := func() int64 {
		keys, _ := s.m.Keys(s.rows["owned"], workspace.Page{Limit: 9})
		return keys[0].UsedAt
	}
	s.done(workspace.KindNoteUse, use)
	require.Zero(t, used(), "within an hour of its creation")
	s.pass(time.Hour)
	s.done(workspace.KindNoteUse, &workspace.NoteUse{Workspace: s.rows["owned"]})
	require.Zero(t, used(), "a session's")
	s.done(workspace.KindNoteUse, use)
	noted := used()
	require.Equal(t, s.log.Stamp, noted)
	p, _ := s.m.Authenticate(keyOf("owned"))
	require.Equal(t, noted+workspace.NoticedMS, p.NoteFrom)
	s.pass(20 * time.Minute)
	s.done(workspace.KindNoteUse, use)
	require.Equal(t, noted, used())
	keys, _ := s.m.Keys(s.rows["owned"], workspace.Page{Limit: 9})
	s.done(workspace.KindRevokeKey, &workspace.RevokeKey{
		Workspace: s.rows["owned"], ID: keys[0].ID,
	})
	s.pass(2 * time.Hour)
	s.done(workspace.KindNoteUse, use)
	require.Equal(t, noted, used())
}

// TestKeepingBeginsWithTheSetting: workspaces that are older than what a new setting says have all
// of its time, and without one nothing goes.
func TestKeepingBeginsWithTheSetting(t *testing.T) {
	s := newStrangers(t)
	s.keep(0, 0)
	s.done(workspace.KindSignUp, s.signUp("a"))
	s.rows["a"] = 1
	s.save("a")
	require.NotZero(t, s.m.NextDue(), "of the purchase")
	s.pass(100 * day)
	require.Zero(t, s.m.NextDue())
	require.True(t, s.works("a"))
	s.keep(20*day, day)
	require.InDelta(t, s.log.Stamp+(20*day).Milliseconds(), s.m.NextDue(), 10)
	s.again()
	s.pass(19 * day)
	s.keep(0, 0)
	require.Zero(t, s.m.NextDue())
	s.keep(time.Hour, time.Hour) // less than a purchase may wait for its owner
	require.InDelta(t, s.log.Stamp+(8*day).Milliseconds(), s.m.NextDue(), 10)
	s.again()
	s.pass(8 * day)
	s.isGone("a", workspace.GoneUnused)
}

// TestAnOperatorRemoves what nobody has claimed, with what waits in it, and nothing else; who did
// it and when is kept.
func TestAnOperatorRemoves(t *testing.T) {
	s := newStrangers(t, "a", "owned")
	s.save("a")
	s.done(workspace.KindClaimWorkspace, &workspace.ClaimWorkspace{
		ID: enginetest.ID("wowned"), Owner: "ada",
	})
	remove := func(on, of uint32) *workspace.Act {
		return &workspace.Act{
			Workspace: on, ID: enginetest.ID("act"), Actor: "operator", Kind: workspace.KindRemoveWorkspace,
			Payload: wire.Encode(nil, &workspace.RemoveWorkspace{Workspace: of}),
		}
	}
	s.refused(engine.OutcomeWorkspaceClaimed, workspace.KindAct, remove(2, 2))
	s.refused(engine.OutcomeRecordUnknown, workspace.KindAct, remove(2, 1))
	require.True(t, s.works("owned"))
	s.done(workspace.KindAct, remove(1, 1))
	s.isGone("a", workspace.GoneOperator)
	s.again()
	s.isGone("a", workspace.GoneOperator)
	acts, _ := s.m.Acts(1, workspace.Page{Limit: 9})
	require.Len(t, acts, 1)
	require.Equal(t, "remove", acts[0].Action)
	require.Equal(t, "operator", acts[0].Actor)
	require.Equal(t, []workspace.ActChange{{Name: "removed", Before: "false", After: "true"}},
		acts[0].Changes)
	require.True(t, s.works("owned"))
}

// TestManyGoInSeveralEntries: what one entry removes is bounded.
func TestManyGoInSeveralEntries(t *testing.T) {
	s := newStrangers(t)
	const many = 600
	for n := range many {
		s.done(workspace.KindSignUp, s.signUp(fmt.Sprint(n)))
	}
	s.pass(2 * day)
	entries := 1
	for ; s.m.NextDue() != 0; entries++ {
		require.LessOrEqual(t, s.m.NextDue(), s.log.Stamp)
		s.pass(0)
	}
	require.Equal(t, (many+255)/256, entries)
	tenants, _ := s.m.Tenants(workspace.Page{Limit: 9}, false)
	require.Empty(t, tenants)
	require.Zero(t, s.m.Strangers().Bytes)
}

// TestNetworksSignUpSoOften: an address 4 times an hour, what is wider twice as often, its network
// four times; who is of none of them is not held up.
func TestNetworksSignUpSoOften(t *testing.T) {
	s, n := newStrangers(t), 0
	from := func(source, wider, network string) engine.Result {
		n++
		c := s.signUp(fmt.Sprint(n))
		c.Source = enginetest.ID(source)
		if wider != "" {
			c.Wider = enginetest.ID(wider)
		}
		c.Network = enginetest.ID(network)
		return s.log.Do(workspace.KindSignUp, c)
	}
	limited := func(limit uint32, r engine.Result) {
		t.Helper()
		require.Equal(t, engine.OutcomeSignupLimited, r.Outcome)
		var reply workspace.RetryReply
		require.NoError(t, wire.Decode(r.Value, &reply))
		require.Equal(t, limit, reply.Limit)
		require.Greater(t, reply.ResetsAt, s.log.Stamp)
	}
	for i := range 8 {
		require.Equal(t, engine.OutcomeDone, from(fmt.Sprint("address ", i/4), "wide", "net").Outcome)
	}
	limited(4, from("address 0", "other", "net"))
	limited(8, from("address 3", "wide", "net"))
	for i := range 8 {
		require.Equal(t, engine.OutcomeDone, from(fmt.Sprint("address ", 10+i), "", "net").Outcome)
	}
	limited(16, from("address 20", "other", "net"))
	require.Equal(t, engine.OutcomeDone, from("address 20", "other", "net 2").Outcome)
	s.again()
	limited(16, from("address 20", "other", "net"))
	s.pass(time.Hour)
	require.Equal(t, engine.OutcomeDone, from("address 0", "wide", "net").Outcome)
	require.Empty(t, s.m.Broken())
}

// many signs up so many workspaces of a network, and returns the row of the first.
func (s *strangers) many(network [16]byte, name string, count int) (first uint32) {
	first = uint32(s.m.Workspaces()) + 1
	for n := range count {
		c := s.signUp(fmt.Sprint(name, n))
		c.Network = network
		s.done(workspace.KindSignUp, c)
	}
	return first
}

// of signs up one more of a network.
func (s *strangers) of(network [16]byte, name string) engine.Result {
	c := s.signUp(name)
	c.Network = network
	return s.log.Do(workspace.KindSignUp, c)
}

// networkFull checks what the refusal of a full network says.
func (s *strangers) networkFull(r engine.Result, minimum, limit uint64) {
	s.t.Helper()
	require.Equal(s.t, engine.OutcomeNetworkFull, r.Outcome)
	var reply workspace.FullReply
	require.NoError(s.t, wire.Decode(r.Value, &reply))
	require.Equal(s.t, limit, reply.Limit)
	require.GreaterOrEqual(s.t, reply.Used, minimum)
}

// TestANetworkHoldsItsShare: a sixteenth of what all strangers may hold. Beyond it only that
// network saves nothing and signs nobody up, until what is there has gone or is claimed.
func TestANetworkHoldsItsShare(t *testing.T) {
	s := newStrangers(t)
	s.freely()
	net, other := [16]byte{32, 1}, [16]byte{32, 2}
	const full = workspace.MaxNetworkBytes/workspace.MaxUnclaimedBytes + 8 // one is not quite full
	first := s.many(net, "net ", full)
	theirs := s.many(other, "other ", 1)
	save := func(row uint32, n int) engine.Outcome {
		c := largeFlow(n)
		c.Workspace, c.ID = row, enginetest.ID(fmt.Sprint("large ", row, n))
		return s.log.Do(workspace.KindSaveFlow, c).Outcome
	}
	flows := 0
	for row := first; row < theirs; row++ {
		for n := 0; save(row, n) == engine.OutcomeDone; n++ {
			flows++
		}
	}
	require.InDelta(t, workspace.MaxNetworkBytes/8300, flows, 200)
	require.Less(t, s.m.Strangers().Bytes, uint64(workspace.MaxStrangersBytes/8))
	require.Equal(t, engine.OutcomeDone, save(theirs, 0))
	for n := 0; s.of(net, fmt.Sprint("more ", n)).Outcome == engine.OutcomeDone; n++ {
		require.Less(t, n, 10, "what is left is less than a flow")
	}
	s.networkFull(s.of(net, "more"), workspace.MaxNetworkBytes-2000, workspace.MaxNetworkBytes)
	require.Equal(t, engine.OutcomeDone, s.of(other, "more").Outcome)
	s.again()
	s.networkFull(s.of(net, "again"), workspace.MaxNetworkBytes-2000, workspace.MaxNetworkBytes)

	s.done(workspace.KindRemoveWorkspace, &workspace.RemoveWorkspace{Workspace: first})
	require.Equal(t, engine.OutcomeDone, s.of(net, "last").Outcome)
	require.Equal(t, engine.OutcomeDone, save(theirs-1, 98))
	s.done(workspace.KindClaimWorkspace, &workspace.ClaimWorkspace{
		ID: enginetest.ID("wnet 2"), Owner: "ada",
	})
	require.Equal(t, engine.OutcomeDone, save(first+2, 99), "with an owner it is not a stranger's")
	require.Empty(t, s.m.Broken())
}

// TestWhatIsLeftCountsForItsNetwork: the rows of removed workspaces stay, so a network that makes
// them and lets them go signs up nobody when it has left a sixty-fourth of what all may leave;
// others do, until all is left that may be.
func TestWhatIsLeftCountsForItsNetwork(t *testing.T) {
	s := newStrangers(t)
	s.freely()
	net, other := [16]byte{32, 1}, [16]byte{32, 2}
	made := 0
	for ; s.m.Strangers().Gone <= workspace.MaxNetworkGoneBytes; made += 4000 {
		s.many(net, fmt.Sprint("round ", made, " "), 4000)
		s.pass(2 * day)
		for s.m.NextDue() != 0 && s.m.NextDue() <= s.log.Stamp {
			s.pass(0)
		}
	}
	require.InDelta(t, 16_000, made, 4000)
	require.Zero(t, s.m.Strangers().Bytes)
	s.networkFull(s.of(net, "more"), workspace.MaxNetworkGoneBytes, workspace.MaxNetworkGoneBytes)
	require.Equal(t, engine.OutcomeDone, s.of(other, "more").Outcome)
	s.again()
	s.networkFull(s.of(net, "more 2"), workspace.MaxNetworkGoneBytes, workspace.MaxNetworkGoneBytes)

	s.m.LetGoneTake(workspace.MaxGoneBytes)
	s.refused(engine.OutcomeSignupOff, workspace.KindSignUp, s.signUp("late"))
}

// TestStrangersKeepFewRecords: 50 flows, archived ones included, and 250 records, since rows stay;
// the purchase that claims it can be asked for all the same, and an owner has more.
func TestStrangersKeepFewRecords(t *testing.T) {
	s := newStrangers(t, "a", "b")
	row, n := s.rows["a"], 0
	flow := func() (workspace.SaveFlow, [16]byte) {
		n++
		id := enginetest.ID(fmt.Sprint("flow ", n))
		return workspace.SaveFlow{Workspace: row, ID: id, Document: document()}, id
	}
	var kept [16]byte
	for range workspace.MaxUnclaimedFlows {
		c, id := flow()
		s.done(workspace.KindSaveFlow, &c)
		if kept == ([16]byte{}) {
			kept = id
			continue
		}
		s.done(workspace.KindArchiveFlow, &workspace.ArchiveFlow{Workspace: row, ID: id})
	}
	full := func(r engine.Result, maximum uint32) {
		t.Helper()
		require.Equal(t, engine.OutcomeWorkspaceFull, r.Outcome)
		var reply workspace.FullReply
		require.NoError(t, wire.Decode(r.Value, &reply))
		require.Equal(t, workspace.FullReply{Records: maximum, MaxRecords: maximum}, reply)
	}
	c, _ := flow()
	full(s.log.Do(workspace.KindSaveFlow, &c), workspace.MaxUnclaimedFlows)
	c.ID, c.Replace, c.Document.Task = kept, true, "Another."
	s.done(workspace.KindSaveFlow, &c)
	ask := func() engine.Result {
		n++
		return s.log.Do(workspace.KindRequestRun, &workspace.RequestRun{
			Workspace: row, Flow: kept, ID: enginetest.ID(fmt.Sprint("request ", n)),
		})
	}
	for asked := range workspace.MaxUnclaimedRecords - workspace.MaxUnclaimedFlows {
		if asked%100 == 0 {
			s.pass(day)
		}
		require.Equal(t, engine.OutcomeDone, ask().Outcome)
	}
	s.pass(day)
	s.again()
	full(ask(), workspace.MaxUnclaimedRecords)
	full(s.log.Do(workspace.KindStartLocalRun, &workspace.StartLocalRun{
		Workspace: row, ID: enginetest.ID("local"),
	}), workspace.MaxUnclaimedRecords)
	full(s.m.Inspectable(row, workspace.RunInspection, s.log.Stamp), workspace.MaxUnclaimedRecords)
	purchase := &workspace.RequestPurchase{Workspace: row, ID: enginetest.ID("p"), Runs: 1}
	s.done(workspace.KindRequestPurchase, purchase)
	s.done(workspace.KindDenyPurchase, &workspace.DenyPurchase{ID: purchase.ID})
	purchase.ID = enginetest.ID("p2")
	s.refused(engine.OutcomeWorkspaceFull, workspace.KindRequestPurchase, purchase)
	s.done(workspace.KindClaimWorkspace, &workspace.ClaimWorkspace{ID: enginetest.ID("wa"), Owner: "ada"})
	s.done(workspace.KindRequestPurchase, purchase)
	require.Equal(t, engine.OutcomeDone, ask().Outcome)
	c, _ = flow()
	s.done(workspace.KindSaveFlow, &c)
	require.Empty(t, s.m.Broken())
}

// TestALaterChangeOfTheSettingTakesNoTimeBack: what was unused before it stays unused.
func TestALaterChangeOfTheSettingTakesNoTimeBack(t *testing.T) {
	s := newStrangers(t, "a")
	begun := s.log.Stamp
	s.done(workspace.KindSaveFlow, &workspace.SaveFlow{
		Workspace: 1, ID: enginetest.ID("flow a"), Document: document(),
	})
	s.pass(5 * day)
	s.keep(20*day, day)
	s.again()
	require.InDelta(t, begun+(20*day).Milliseconds(), s.m.NextDue(), 10)
	s.pass(6 * day)
	s.keep(10*day, day)
	s.pass(0)
	require.False(t, s.works("a"))
}

// TestAFullWorkspaceCanBeBought: the purchase that claims a workspace has its room from the start,
// also where all strangers together have none left; a second one has not.
func TestAFullWorkspaceCanBeBought(t *testing.T) {
	m, l := guests()
	for n := 0; l.Do(workspace.KindSaveFlow, largeFlow(n)).Outcome == engine.OutcomeDone; n++ {
		require.Less(t, n, 100)
	}
	for n := 0; ; n++ {
		small := &workspace.SaveFlow{Workspace: 1, ID: enginetest.ID(fmt.Sprint("small", n))}
		if l.Do(workspace.KindSaveFlow, small).Outcome != engine.OutcomeDone {
			break
		}
	}
	m.LetStrangersHold(workspace.MaxStrangersBytes)
	buy := func(row uint32, name string) engine.Outcome {
		return l.Do(workspace.KindRequestPurchase, &workspace.RequestPurchase{
			Workspace: row, ID: enginetest.ID(name), Runs: 1, Link: keyOf(name),
		}).Outcome
	}
	for row := range uint32(2) {
		name := fmt.Sprint("bought ", row)
		require.Equal(t, engine.OutcomeDone, buy(row+1, name))
		require.Equal(t, engine.OutcomeDone, l.Do(workspace.KindCancelPurchase, &workspace.CancelPurchase{
			Workspace: row + 1, ID: enginetest.ID(name),
		}).Outcome)
		require.Equal(t, engine.OutcomeWorkspaceFull, buy(row+1, name+" again"))
	}
	m, l = guests()
	require.Equal(t, engine.OutcomeDone, buy(1, "one"))
	used, _ := m.Held(1)
	none, _ := m.Held(2)
	require.Equal(t, none, used, "it was counted from the start")
	require.Equal(t, engine.OutcomeDone, l.Do(workspace.KindApprovePurchase,
		&workspace.ApprovePurchase{ID: enginetest.ID("one"), Owner: "ada"}).Outcome)
	require.Empty(t, m.Broken())
}

// TestEmptyOnesAreKeptNoLonger than those in which something was saved, whatever the settings say:
// an instant that saving moved back would be found too late.
func TestEmptyOnesAreKeptNoLonger(t *testing.T) {
	s := newStrangers(t, "a")
	begun := s.log.Stamp
	s.keep(20*day, 30*day)
	require.InDelta(t, begun+(20*day).Milliseconds(), s.m.NextDue(), 10)
	s.again()
}
