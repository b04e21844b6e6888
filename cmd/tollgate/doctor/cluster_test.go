package doctor_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/cluster"
	"tollgate/cmd/tollgate/doctor"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// well are the answers of three nodes with which all is well.
func well() []doctor.Witness {
	var all []doctor.Witness
	for i, id := range []string{"node1", "node2", "node3"} {
		status := &cluster.Status{NodeID: id, Ready: true}
		for shard, name := range []string{"billing", "workspace"} {
			status.Groups = append(status.Groups, cluster.GroupStatus{
				Shard: uint16(shard), Name: name, Leader: "node2", AppliedIndex: 10_000,
				StateIndex: 9_000, StateHash: "0a",
			})
		}
		for _, other := range []string{"node1", "node2", "node3"} {
			status.Members = append(status.Members, cluster.MemberStatus{
				Member: cluster.Member{ID: other, Raft: other + ":7080", Ops: other + ":9080"},
				Voter:  true, Reachable: true,
			})
		}
		all = append(all, doctor.Witness{
			Node: id, Address: id + ":9080", Status: status, Vitals: &doctor.Vitals{
				Node: id, Build: "v1", StartedAt: now.Add(-time.Hour),
				OpenFiles: doctor.OpenFiles{Limit: 20_000, Needed: 18_432, Own: 2_048},
				Disk: doctor.Disk{
					Folder: "/data", TotalBytes: 100 << 30, FreeBytes: 50 << 30, ReserveBytes: 1 << 30,
					Syncs: 32, SyncMedianUS: 800, SyncLongestUS: 2000,
				},
				Memory:       doctor.Memory{LimitBytes: 6 << 30, MachineBytes: 8 << 30, UsedBytes: 1 << 30},
				Keys:         doctor.Keys{Held: 1000, Limit: 100_000, MemoryLimit: 1_000_000},
				Reservations: doctor.Reservations{Kept: 1000, Limit: 100_000},
				Certificates: []doctor.Certificate{{
					Use: doctor.UsePeers, File: id + ".pem", From: now.AddDate(-1, 0, 0),
					Until: now.AddDate(1, 0, 0),
				}},
				Backups: doctor.Backups{
					Folder: "/backups", Makes: i == 1, EverySeconds: 86_400, Last: now.Add(-20 * time.Hour),
				},
				Shared: map[string]string{"limits.keyRetention": "168h", doctor.SharedSecret: "abcd"},
			},
		})
	}
	return all
}

func TestAllIsWell(t *testing.T) {
	report := doctor.Examine(well(), now)
	require.Equal(t, doctor.LevelOK, report.Level, report.Findings)
	require.Equal(t, len(report.Findings), report.Count(doctor.LevelOK))
	checks := map[string]int{}
	for _, f := range report.Findings {
		require.NotEmpty(t, f.Says)
		checks[f.Check]++
	}
	require.Equal(t, map[string]int{
		"majority": 1, "leader of billing": 1, "leader of workspace": 1, "versions": 1, "settings": 1,
		"backups": 1, "ready": 3, "member": 3, "clock": 3, "progress of billing": 3,
		"progress of workspace": 3, "disk space": 3, "disk speed": 3, "open files": 3, "memory": 3,
		"idempotency keys": 3, "reservations": 3, "certificate peers": 3,
	}, checks)
}

// TestOneNodeIsExaminedAlone: a node reports what it knows of the others, without their answers.
func TestOneNodeIsExaminedAlone(t *testing.T) {
	all := well()
	report := doctor.ExamineOne(all[0], now)
	require.Equal(t, doctor.LevelOK, report.Level, report.Findings)
	all[0].Status.Members[2].Reachable = false
	all[0].Vitals.Disk.FreeBytes = 0
	all[0].Status.Groups[1].Leader = ""
	requireFound(t, doctor.ExamineOne(all[0], now), []string{
		"fail node3 member: not reached by node1", "fail node1 disk space: writes are refused",
		"fail cluster leader of workspace: the nodes follow no leader",
	})
}

// worse is one thing that is wrong, and all that is found of it.
type worse struct {
	name   string
	change func(all []doctor.Witness)
	found  []string // level, node or "cluster", check: a part of what is said
}

// each applies a change to what each node says of the cluster.
func each(change func(s *cluster.Status)) func([]doctor.Witness) {
	return func(all []doctor.Witness) {
		for i := range all {
			if all[i].Status != nil {
				change(all[i].Status)
			}
		}
	}
}

// third changes what node3 says of itself.
func third(change func(v *doctor.Vitals)) func([]doctor.Witness) {
	return func(all []doctor.Witness) { change(all[2].Vitals) }
}

var worsening = []worse{
	{"a node is down", func(all []doctor.Witness) {
		each(func(s *cluster.Status) { s.Members[2].Reachable = s.NodeID == "node3" })(all)
		all[2].Status, all[2].Vitals, all[2].Refused = nil, nil, errors.New("connection refused")
	}, []string{
		"fail node3 answers: connection refused", "fail node3 member: not reached by node1, node2",
		"warn cluster majority: when one more is lost",
	}},
	{"two are down", func(all []doctor.Witness) {
		for i := 1; i < 3; i++ {
			all[i].Status, all[i].Vitals, all[i].Refused = nil, nil, errors.New("timeout")
		}
	}, []string{
		"fail node2 answers: timeout", "fail node3 answers: timeout",
		"fail cluster majority: 3 voters, of which 1 are ready; 2 decide",
	}},
	{"a node is not ready", func(all []doctor.Witness) {
		all[2].Status.Ready = false
		all[2].Status.Reasons = []cluster.Reason{
			{Cause: cluster.CauseBehind, Group: "billing", Text: "behind by 4000 ms"},
		}
	}, []string{
		"fail node3 ready: billing: behind by 4000 ms", "warn cluster majority: one more",
	}},
	{
		"a link is cut", func(all []doctor.Witness) { all[0].Status.Members[2].Reachable = false },
		[]string{"fail node3 member: not reached by node1 at node3:7080"},
	},
	{
		"one group only", each(func(s *cluster.Status) { s.Members[0].Problem = "a member of one group" }),
		[]string{"fail node1 member: a member of one group"},
	},
	{
		"no vote", each(func(s *cluster.Status) { s.Members[0].Voter = false }),
		[]string{"warn node1 member: no vote", "warn cluster majority: one more is lost"},
	},
	{
		"no address", each(func(s *cluster.Status) { s.Members[0].Ops = "" }),
		[]string{"warn node1 member: does not know its operations"},
	},
	{"an even number", func(all []doctor.Witness) {
		each(func(s *cluster.Status) {
			s.Members = append(s.Members, cluster.MemberStatus{
				Member: cluster.Member{ID: "node4", Ops: "x"}, Voter: true, Reachable: true,
			})
		})(all)
	}, []string{"warn cluster majority: 4 voters, of which 3 are ready; 3 decide"}},
	{
		"no leader is agreed on", func(all []doctor.Witness) { all[1].Status.Groups[1].Leader = "" },
		[]string{"fail cluster leader of workspace: no leader, node2"},
	},
	{
		"a clock is off", func(all []doctor.Witness) { all[2].Status.ClockAheadMS = -1500 },
		[]string{"warn node3 clock: -1.5s away"},
	},
	{
		"a clock is far off", func(all []doctor.Witness) { all[2].Status.ClockAheadMS = 11_000 },
		[]string{"fail node3 clock: 11s away"},
	},
	{
		"a clock is nobody's", third(func(v *doctor.Vitals) { v.ClockUnsynchronised = true }),
		[]string{"warn node3 clock: no program synchronizes it"},
	},
	{
		"a member lags", func(all []doctor.Witness) { all[2].Status.Groups[0].AppliedIndex = 4_000 },
		[]string{"warn node3 progress of billing: 6000 entries behind"},
	},
	{
		"a state differs", func(all []doctor.Witness) { all[2].Status.Groups[0].StateHash = "0b" },
		[]string{
			"fail node1 progress of billing: at entry 9000 its state is not that of node3",
			"fail node2 progress of billing: not that of node3", "fail node3 progress of billing: not that",
		},
	},
	{
		"another build", third(func(v *doctor.Vitals) { v.Build = "v2" }),
		[]string{"warn cluster versions: v1 (node1, node2), v2 (node3)"},
	},
	{"a node that does not say its build", func(all []doctor.Witness) {
		all[2].Vitals, all[2].Refused = nil, errors.New("404 Not Found")
	}, []string{
		"warn cluster versions: unknown (node3)", "warn node3 answers: 404 Not Found",
	}},
	{
		"another setting", third(func(v *doctor.Vitals) { v.Shared["limits.keyRetention"] = "1h" }),
		[]string{"warn cluster settings: limits.keyRetention differs: 168h (node1, node2), 1h (node3)"},
	},
	{
		"another secret", third(func(v *doctor.Vitals) { v.Shared[doctor.SharedSecret] = "ffff" }),
		[]string{"fail cluster settings: secretsKey"},
	},
	{
		"the disk fills", third(func(v *doctor.Vitals) { v.Disk.FreeBytes = 9 << 30 }),
		[]string{"warn node3 disk space: 9.0 GiB of 100 GiB are free"},
	},
	{"a small disk fills", third(func(v *doctor.Vitals) {
		v.Disk.TotalBytes, v.Disk.FreeBytes = 4<<30, 3<<29
	}), []string{"warn node3 disk space: 1.5 GiB of 4.0 GiB"}},
	{
		"the disk is full", third(func(v *doctor.Vitals) { v.Disk.FreeBytes = 900 << 20 }),
		[]string{"fail node3 disk space: 900 MiB of 100 GiB are free in /data, 1.0 GiB are kept"},
	},
	{
		"the disk is slow", third(func(v *doctor.Vitals) { v.Disk.SyncMedianUS = 21_000 }),
		[]string{"warn node3 disk speed: 21ms (median of 32"},
	},
	{
		"the disk is far too slow", third(func(v *doctor.Vitals) { v.Disk.SyncMedianUS = 300_000 }),
		[]string{"fail node3 disk speed: 300ms"},
	},
	{
		"the disk cannot be written", third(func(v *doctor.Vitals) { v.Disk.Problem = "read-only" }),
		[]string{"fail node3 disk speed: read-only"},
	},
	{
		"few open files", third(func(v *doctor.Vitals) { v.OpenFiles.Limit = 4_096 }),
		[]string{"warn node3 open files: 2048 connections of clients in place of 16384"},
	},
	{
		"hardly any open files", third(func(v *doctor.Vitals) { v.OpenFiles.Limit = 1_024 }),
		[]string{"fail node3 open files: 1024 may be open"},
	},
	{
		"memory is spent", third(func(v *doctor.Vitals) { v.Memory.UsedBytes = 5500 << 20 }),
		[]string{"warn node3 memory: 5.4 GiB are used"},
	},
	{
		"more memory than there is", third(func(v *doctor.Vitals) { v.Memory.MachineBytes = 4 << 30 }),
		[]string{"fail node3 memory: the kernel ends"},
	},
	{
		"keys are spent", third(func(v *doctor.Vitals) { v.Keys.Held = 80_001 }),
		[]string{"warn node3 idempotency keys: 80001 of 100000"},
	},
	{
		"reservations are spent", third(func(v *doctor.Vitals) { v.Reservations.Kept = 80_001 }),
		[]string{"warn node3 reservations: 80001 of 100000"},
	},
	{
		"keys are in no file", third(func(v *doctor.Vitals) {
			v.Keys.OnDisk, v.Keys.Uncovered, v.Keys.Problem = 700, 50, "no space left"
		}),
		[]string{"fail node3 idempotency keys: 50 of these are in no file of this node yet: it records " +
			"no usage events (no space left)"},
	},
	{
		"key files cannot be made", third(func(v *doctor.Vitals) { v.Keys.Problem = "no space left" }),
		[]string{"warn node3 idempotency keys: files of older ones cannot be made here (no space left)"},
	},
	{
		"keys stay in memory", third(func(v *doctor.Vitals) {
			v.Keys.OnDisk, v.Keys.FilterBytes, v.Keys.MemoryLimit = 400, 5<<20, 1100
		}),
		[]string{"warn node3 idempotency keys: 400 of them on disk, whose filters take 5 MiB; " +
			"600 are in memory, of 1100 at most"},
	},
	{"a certificate ends soon", third(func(v *doctor.Vitals) {
		v.Certificates[0].Until = now.Add(29 * day)
	}), []string{"warn node3 certificate peers: node3.pem ends at 2026-03-30T12:00:00Z, in 29 days"}},
	{"a certificate ends very soon", third(func(v *doctor.Vitals) {
		v.Certificates[0].Until = now.Add(6 * day)
	}), []string{"fail node3 certificate peers: in 6 days"}},
	{"a certificate has ended", third(func(v *doctor.Vitals) {
		v.Certificates[0].Until = now.Add(-time.Hour)
	}), []string{"fail node3 certificate peers: ended at 2026-03-01T11:00:00Z"}},
	{"a certificate is of later", third(func(v *doctor.Vitals) {
		v.Certificates[0].From = now.Add(time.Hour)
	}), []string{"fail node3 certificate peers: not valid before"}},
	{"a certificate was not taken", third(func(v *doctor.Vitals) {
		v.Certificates[0].Problem = "no PEM data"
	}), []string{"fail node3 certificate peers: no PEM data"}},
	{
		"backups fail", func(all []doctor.Witness) { all[1].Vitals.Backups.Failed = 2 },
		[]string{"warn cluster backups: 2 failed since node2 began"},
	},
	{
		"the log is not kept", func(all []doctor.Witness) { all[1].Vitals.Backups.LogFailed = 3 },
		[]string{"warn cluster kept log: 3 times since node2 began"},
	},
	{"backups stopped", func(all []doctor.Witness) {
		all[1].Vitals.Backups.Last = now.Add(-50 * time.Hour)
	}, []string{"fail cluster backups: the newest in /backups was begun at 2026-02-27T10:00:00Z"}},
	{"backups never were", func(all []doctor.Witness) {
		all[1].Vitals.Backups.Last, all[1].Vitals.StartedAt = time.Time{}, now.Add(-50*time.Hour)
	}, []string{"fail cluster backups: node2 has made none since it began"}},
}

// TestEverythingThatIsWrongIsFound: for each thing that can be wrong, exactly that is found, and
// what to do about it is said.
func TestEverythingThatIsWrongIsFound(t *testing.T) {
	for _, w := range worsening {
		t.Run(w.name, func(t *testing.T) {
			all := well()
			w.change(all)
			report := doctor.Examine(all, now)
			requireFound(t, report, w.found)
		})
	}
}

// TestVotersAreCounted: one, and an even number of them, all of which are ready.
func TestVotersAreCounted(t *testing.T) {
	all := well()
	fourth := *all[2].Status
	fourth.NodeID = "node4"
	all = append(all, doctor.Witness{Node: "node4", Status: &fourth, Vitals: all[2].Vitals})
	each(func(s *cluster.Status) {
		s.Members = append(s.Members, cluster.MemberStatus{
			Member: cluster.Member{ID: "node4", Ops: "node4:9080"}, Voter: true, Reachable: true,
		})
	})(all)
	requireFound(t, doctor.Examine(all, now), []string{
		"warn cluster majority: 4 voters, of which 4 are ready; 3 decide: an even number",
	})
	alone := well()[:1]
	alone[0].Status.Members = alone[0].Status.Members[:1]
	requireFound(t, doctor.Examine(alone, now), []string{
		"warn cluster majority: 1 voters, of which 1 are ready; 1 decide: the loss of it",
	})
}

// TestReportsAreReadByScripts: what --json prints is what was found, the worst first.
func TestReportsAreReadByScripts(t *testing.T) {
	all := well()
	all[2].Status.ClockAheadMS = 11_000
	all[0].Vitals.Keys.Held = 99_999
	report := doctor.Examine(all, now)
	text, err := json.Marshal(report)
	require.NoError(t, err)
	require.Contains(t, string(text), `{"level":"fail","findings":[{"check":"clock","node":"node3",`+
		`"level":"fail","says":"11s away`)
	var again doctor.Report
	require.NoError(t, json.Unmarshal(text, &again))
	require.Equal(t, report, again)
	require.Equal(t, "idempotency keys", again.Findings[1].Check)
	require.Error(t, json.Unmarshal([]byte(`{"level":"bad"}`), &again))
}
