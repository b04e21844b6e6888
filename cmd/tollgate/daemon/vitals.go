package daemon

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"runtime/metrics"
	"sync"
	"time"

	"tollgate/cmd/tollgate/config"
	"tollgate/cmd/tollgate/doctor"
	"tollgate/engine"
	"tollgate/server/console"
)

// diskEvery is how often the disk is measured, however often it is asked for: the log has it first.
const diskEvery = 5 * time.Second

// measured is what was last found out about the disk.
type measured struct {
	mu   sync.Mutex
	at   time.Time
	disk doctor.Disk
}

func (m *measured) look(folder string, reserve int64) doctor.Disk {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at.IsZero() || time.Since(m.at) >= diskEvery {
		m.disk, m.at = doctor.LookAtDisk(folder, reserve), time.Now()
	}
	return m.disk
}

// last is what was last found out, without looking: a disk that hangs holds up who does.
func (m *measured) last() doctor.Disk {
	if !m.mu.TryLock() {
		return doctor.Disk{}
	}
	defer m.mu.Unlock()
	return m.disk
}

// findings are what doctor says needs attention, as far as this node alone knows.
func (n *node) findings() (list []console.Finding) {
	status, vitals := n.cluster.Status(), n.vitalsWith(n.measured.last())
	report := doctor.ExamineOne(
		doctor.Witness{Node: n.settings.Node, Status: &status, Vitals: &vitals}, time.Now(),
	)
	for _, f := range report.Findings {
		if f.Level > doctor.LevelOK {
			list = append(list, console.Finding{
				Check: f.Check, Node: f.Node, Fails: f.Level == doctor.LevelFail, Says: f.Says, Do: f.Do,
			})
		}
	}
	return list
}

// vitals are what the node says of itself.
func (n *node) vitals() any {
	return n.vitalsWith(n.measured.look(n.settings.Data, int64(n.settings.DiskReserve)<<20))
}

func (n *node) vitalsWith(disk doctor.Disk) doctor.Vitals {
	s := &n.settings
	v := doctor.Vitals{
		Node: s.Node, Build: Version(), EntryFormat: engine.FormatVersion, StartedAt: n.began,
		ClockUnsynchronised: doctor.ClockUnsynchronised(),
		Disk:                disk,
		Memory: doctor.Memory{
			LimitBytes: s.MemoryBytes(), MachineBytes: config.MachineMemory(), UsedBytes: usedMemory(),
		},
		Keys:         n.keys(),
		Reservations: n.reservations(),
		Certificates: n.certificates(), Backups: n.backupVitals(), Shared: n.shared(),
	}
	if limit, err := doctor.FileLimit(); err == nil { // it could be read when the node began
		v.OpenFiles = doctor.OpenFiles{
			Limit: limit, Needed: n.wantedFiles, Own: doctor.OwnFiles,
		}
	}
	return v
}

// keys are where the idempotency keys are.
func (n *node) keys() doctor.Keys {
	stats, limits := n.machine.Stats(), n.machine.Limits()
	k := doctor.Keys{
		Held: stats.IdempotencyKeys, Limit: limits.MaxKeys,
		OnDisk: stats.KeysOnDisk, MemoryLimit: limits.MaxKeysBehind(),
	}
	if status := n.cluster.Billing().Status().Keys; status != nil {
		k.FilterBytes, k.Uncovered, k.Problem = status.FilterBytes, status.Uncovered, status.Problem
	}
	return k
}

// reservations are how many are kept, of how many.
func (n *node) reservations() doctor.Reservations {
	limits := n.machine.Limits()
	return doctor.Reservations{
		Kept: n.machine.Stats().Reservations, Limit: limits.Reservations(),
	}
}

// usedMemory is what Go's memory limit is about.
func usedMemory() uint64 {
	samples := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
	}
	metrics.Read(samples)
	return samples[0].Value.Uint64() - samples[1].Value.Uint64()
}

func (n *node) certificates() []doctor.Certificate {
	s, list := &n.settings, []doctor.Certificate{}
	for _, shown := range []struct {
		use, file string
		trusted   []*x509.Certificate
	}{
		{doctor.UsePeers, s.TLS.Certificate, n.trusted},
		{doctor.UseHTTP, s.HTTPTLS.Certificate, nil},
		{doctor.UseOps, s.OpsTLS.Certificate, nil},
	} {
		pair := n.pairs[shown.use]
		if pair == nil {
			continue
		}
		leaf, refused := pair.Leaf()
		c := doctor.Shown(shown.use, shown.file, leaf, shown.trusted)
		if refused != nil {
			c.Problem = "the new file was refused, the previous one stays in use: " + refused.Error()
		}
		list = append(list, c)
	}
	if n.trusted != nil {
		list = append(list, doctor.Authority(s.TLS.Authority, n.trusted))
	}
	return list
}

// shared are the settings that should be the same on every node. What seals secrets is shown as a
// fingerprint, from which a key of 256 bits cannot be found.
func (n *node) shared() map[string]string {
	s := &n.settings
	shared := map[string]string{
		"limits.keyRetention":       s.Limits.KeyRetention.String(),
		"limits.eventWindow":        s.Limits.EventWindow.String(),
		"limits.auditRetention":     s.Limits.AuditRetention.String(),
		"audit":                     s.Audit,
		"sandboxHost":               s.SandboxHost,
		"publicURL":                 s.PublicURL,
		"workspaces.signupsPerHour": fmt.Sprint(s.Workspaces.SignupsPerHour),
		"workspaces.runsPerDay":     fmt.Sprint(s.Workspaces.RunsPerDay),
		"workspaces.freeRunsPerDay": fmt.Sprint(s.Workspaces.FreeRunsPerDay),
		"workspaces.unclaimedDays":  fmt.Sprint(s.Workspaces.UnclaimedDays),
		"workspaces.emptyHours":     fmt.Sprint(s.Workspaces.EmptyHours),
		"workspaces.credits":        fmt.Sprint(s.Workspaces.Credits),
		"workspaces.payments":       s.Workspaces.Payments,
	}
	if key, err := n.sealKey(); err == nil { // the node did not begin with one that cannot be read
		mac := hmac.New(sha256.New, key[:])
		mac.Write([]byte("tollgate doctor"))
		shared[doctor.SharedSecret] = hex.EncodeToString(mac.Sum(nil)[:4])
	}
	return shared
}

// backupVitals say how scheduled backups go, as far as this node knows.
func (n *node) backupVitals() doctor.Backups {
	s := &n.settings.Backups
	b := doctor.Backups{
		Folder: s.Folder, Makes: s.Folder != "" && n.saves(), EverySeconds: int64(s.Every.Seconds()),
		Failed: n.backups.failures.Load(), LogFailed: n.backups.logFailures.Load(),
	}
	if s.Daily() >= 0 {
		b.EverySeconds = 24 * 60 * 60
	}
	if begun := n.backups.newest.Load(); begun != nil {
		b.Last = *begun
	}
	return b
}
