package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"tollgate/cluster"
)

// Witness is a node that was asked, and what it answered.
type Witness struct {
	// Node is its name, "" where that is unknown. Address is where it was asked.
	Node, Address string
	// Status is what it knows of the cluster, Vitals what it says of itself; nil where it did not
	// answer, for Refused.
	Status  *cluster.Status
	Vitals  *Vitals
	Refused error
	// Remedy is what to do about Refused, "" where only that it does not answer is known.
	Remedy string
}

// checks of more than one place.
const (
	checkAnswers = "answers"
	checkMember  = "member"
)

const (
	// warnClock is how far a clock may be off before somebody should look; at failClock the node
	// neither leads nor is ready (the lead of stamps in cluster/CLOCKS.md).
	warnClock = time.Second
	failClock = 10 * time.Second
	// farBehind is how many entries a member may be behind the others.
	farBehind = 5000
)

// Examine judges what the nodes of a cluster answered. The order of the witnesses is that of the
// findings.
func Examine(witnesses []Witness, now time.Time) Report {
	answered := slices.DeleteFunc(slices.Clone(witnesses), func(w Witness) bool {
		return w.Status == nil
	})
	whole := &chart{}
	whole.voters(answered)
	whole.groups(answered)
	whole.builds(witnesses)
	whole.shared(witnesses)
	whole.backups(witnesses, now)
	list := whole.list
	for _, w := range witnesses {
		c := &chart{node: w.Node}
		c.witness(w, answered, now)
		list = append(list, c.list...)
	}
	return NewReport(list)
}

// ExamineOne judges what one node knows, of itself and of the others, which are not asked: a part
// of what Examine finds.
func ExamineOne(w Witness, now time.Time) Report {
	alone := []Witness{w}
	whole := &chart{}
	whole.groups(alone)
	whole.backups(alone, now)
	c := &chart{node: w.Node}
	c.witness(w, alone, now)
	list := append(whole.list, c.list...)
	for _, m := range w.Status.Members {
		if m.ID != w.Node {
			other := &chart{node: m.ID}
			other.member(m.ID, alone)
			list = append(list, other.list...)
		}
	}
	return NewReport(list)
}

// witness judges one node, by its answer and by those of all that answered.
func (c *chart) witness(w Witness, all []Witness, now time.Time) {
	c.node = cmp.Or(c.node, w.Address)
	if w.Status == nil {
		do := cmp.Or(w.Remedy, "see whether it runs, what its log says, and whether "+
			"its operations listener can be reached from here")
		c.fail(checkAnswers, fmt.Sprintf("no answer at %s: %s", cmp.Or(w.Address, "(no address)"),
			w.Refused), do)
		c.member(w.Node, all)
		return
	}
	c.ready(w.Status)
	c.member(w.Node, all)
	c.clock(w)
	c.progress(w.Status, all)
	if w.Vitals == nil {
		c.warn(checkAnswers, fmt.Sprintf("it does not say how it is itself: %s", w.Refused),
			cmp.Or(w.Remedy, "see what its log says"))
		return
	}
	c.machine(w.Vitals, now)
}

func (c *chart) ready(s *cluster.Status) {
	if s.Ready {
		c.ok("ready", "it serves")
		return
	}
	c.fail("ready", cluster.Words(s.Reasons), "it is sent no requests: look again in some "+
		"seconds; then OPERATIONS.md, A node that is not ready")
}

// member judges what all nodes that answered say of one.
func (c *chart) member(id string, all []Witness) {
	silent, problems, known := []string{}, map[string]bool{}, false
	var seen cluster.MemberStatus
	for _, w := range all {
		for _, m := range w.Status.Members {
			if m.ID != id {
				continue
			}
			seen, known = m, true
			if !m.Reachable {
				silent = append(silent, w.Node)
			}
			if m.Problem != "" {
				problems[m.Problem] = true
			}
		}
	}
	if !known {
		return
	}
	for _, why := range slices.Sorted(maps.Keys(problems)) {
		c.fail(checkMember, why, "OPERATIONS.md, Replace a node")
	}
	switch {
	case len(silent) > 0:
		c.fail(checkMember, "not reached by "+strings.Join(silent, ", ")+" at "+seen.Raft,
			"see whether it runs, whether that address and port can be reached from there, and "+
				"whether its certificate is valid")
	case !seen.Voter:
		c.warn(checkMember, "it has no vote", fmt.Sprintf("tollgate cluster promote %s, unless it is "+
			"to serve reads only", id))
	case seen.Ops == "":
		c.warn(checkMember, "the cluster does not know its operations listener", fmt.Sprintf(
			"tollgate cluster join %s --raft %s --member-ops …", id, seen.Raft))
	default:
		c.ok(checkMember, "a voter, reached by all others")
	}
}

func (c *chart) clock(w Witness) {
	ahead := time.Duration(w.Status.ClockAheadMS) * time.Millisecond
	off := max(ahead, -ahead)
	says := fmt.Sprintf("%s away from the median of the voters' clocks", ahead)
	const do = "see whether chrony or another NTP client runs there, and whom it follows: " +
		"OPERATIONS.md, Clocks"
	switch {
	case off > failClock:
		c.fail("clock", says+": it does not lead", do)
	case off > warnClock:
		c.warn("clock", says, do)
	case w.Vitals != nil && w.Vitals.ClockUnsynchronised:
		c.warn("clock", says+"; but its kernel reports that no program synchronizes it", do)
	default:
		c.ok("clock", "%s", says)
	}
}

// progress compares what a node has applied with what any node has, and its states with those of
// the others.
func (c *chart) progress(s *cluster.Status, all []Witness) {
	for i, g := range s.Groups {
		check := "progress of " + g.Name
		furthest, differs := g.AppliedIndex, ""
		for _, w := range all {
			if len(w.Status.Groups) <= i {
				continue
			}
			other := w.Status.Groups[i]
			furthest = max(furthest, other.AppliedIndex)
			if other.StateIndex == g.StateIndex && other.StateHash != g.StateHash {
				differs = w.Status.NodeID
			}
		}
		behind := furthest - g.AppliedIndex
		switch {
		case differs != "":
			c.fail(check, fmt.Sprintf("at entry %d its state is not that of %s", g.StateIndex, differs),
				"stop both, keep their folders for whoever looks into it, and replace the one whose "+
					"state a third does not have either: OPERATIONS.md, Replace a node")
		case behind > farBehind:
			c.warn(check, fmt.Sprintf("%d entries behind", behind), "wait and look again; when it gets "+
				"no less, look at its disk, its processor and the network")
		default:
			c.ok(check, "%d entries behind, %d segments missing", behind, g.SegmentsMissing)
		}
	}
}

// machine judges a node's own vitals.
func (c *chart) machine(v *Vitals, now time.Time) {
	c.disk(v.Disk)
	c.openFiles(v.OpenFiles)
	c.memory(v.Memory)
	c.keys(v.Keys)
	c.reservations(v.Reservations)
	for _, certificate := range v.Certificates {
		c.certificate(certificate, now)
	}
}

// voters counts who could decide.
func (c *chart) voters(all []Witness) {
	voters, answering := map[string]bool{}, 0
	for _, w := range all {
		for _, m := range w.Status.Members {
			voters[m.ID] = voters[m.ID] || m.Voter
		}
	}
	for _, w := range all {
		if w.Status.Ready && voters[w.Node] {
			answering++
		}
	}
	count := 0
	for _, votes := range voters {
		if votes {
			count++
		}
	}
	if count == 0 {
		return // no node answered, which is said of each
	}
	need := count/2 + 1
	says := fmt.Sprintf("%d voters, of which %d are ready; %d decide", count, answering, need)
	switch {
	case answering < need:
		c.fail("majority", says, "start the nodes that are down; where their data is gone for good: "+
			"OPERATIONS.md, Restore into a new cluster")
	case count == 1:
		c.warn("majority", says+": the loss of it is the loss of all",
			"add nodes: OPERATIONS.md, Add and remove nodes")
	case answering == need:
		c.warn("majority", says+": when one more is lost, writes stop",
			"bring the others back, or replace them, or add one to an even number")
	case count%2 == 0:
		c.warn("majority", says+": an even number bears no more losses than one less",
			"add one, or remove one")
	default:
		c.ok("majority", "%s", says)
	}
}

// groups asks who leads.
func (c *chart) groups(all []Witness) {
	leaders := map[string]map[string]bool{}
	for _, w := range all {
		for _, g := range w.Status.Groups {
			if leaders[g.Name] == nil {
				leaders[g.Name] = map[string]bool{}
			}
			leaders[g.Name][cmp.Or(g.Leader, "no leader")] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(leaders)) {
		who := slices.Sorted(maps.Keys(leaders[name]))
		if len(who) == 1 && who[0] != "no leader" {
			c.ok("leader of "+name, "%s", who[0])
			continue
		}
		c.fail("leader of "+name, "the nodes follow "+strings.Join(who, ", "), "look again in a second "+
			"or two: a change of leader looks like this; if it stays, see who reaches whom")
	}
}

// spread lists who says what: "v1 (node1, node2), v2 (node3)".
func spread(said map[string][]string) string {
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(said)) {
		parts = append(parts, fmt.Sprintf("%s (%s)", what, strings.Join(said[what], ", ")))
	}
	return strings.Join(parts, ", ")
}

func (c *chart) builds(all []Witness) {
	said := map[string][]string{}
	for _, w := range all {
		if w.Vitals != nil {
			said[w.Vitals.Build] = append(said[w.Vitals.Build], w.Node)
		} else if w.Status != nil {
			said["unknown"] = append(said["unknown"], w.Node)
		}
	}
	switch len(said) {
	case 0:
	case 1:
		c.ok("versions", "%s", spread(said))
	default:
		c.warn("versions", spread(said), "finish the upgrade, node by node")
	}
}

// SharedSecret is the name of the setting, among those that are shared, that seals secrets.
const SharedSecret = "secretsKey (or adminKeyHash)"

// shared compares the settings that should be the same everywhere.
func (c *chart) shared(all []Witness) {
	settings := map[string]map[string][]string{}
	for _, w := range all {
		if w.Vitals == nil {
			continue
		}
		for name, value := range w.Vitals.Shared {
			if settings[name] == nil {
				settings[name] = map[string][]string{}
			}
			settings[name][value] = append(settings[name][value], w.Node)
		}
	}
	differ := false
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if len(settings[name]) == 1 {
			continue
		}
		level := LevelWarn
		if name == SharedSecret {
			level = LevelFail // what one leader sealed, the next one cannot open
		}
		differ = true
		c.add(level, "settings", name+" differs: "+spread(settings[name]), "give all nodes the same "+
			"value, and restart those that change: whoever leads goes by its own")
	}
	if !differ && len(settings) > 0 {
		c.ok("settings", "%d settings that have to be the same everywhere are", len(settings))
	}
}

// backups judges the scheduled backups by the node that makes them.
func (c *chart) backups(all []Witness, now time.Time) {
	for _, w := range all {
		if w.Vitals == nil || w.Vitals.Backups.Folder == "" || !w.Vitals.Backups.Makes {
			continue
		}
		b := w.Vitals.Backups
		since := w.Vitals.StartedAt
		says := fmt.Sprintf("%s has made none since it began, in %s", w.Node, b.Folder)
		if !b.Last.IsZero() {
			since = b.Last
			says = fmt.Sprintf("the newest in %s was begun at %s", b.Folder,
				b.Last.UTC().Format(time.RFC3339))
		}
		const do = "its log says why (a scheduled backup failed): OPERATIONS.md, Backup and restore"
		switch {
		case now.Sub(since) > 2*time.Duration(b.EverySeconds)*time.Second:
			c.fail("backups", says, do)
		case b.Failed > 0:
			c.warn("backups", fmt.Sprintf("%s; %d failed since %s began", says, b.Failed, w.Node), do)
		default:
			c.ok("backups", "%s", says)
		}
		if b.LogFailed > 0 {
			c.warn("kept log", fmt.Sprintf("the log was not kept, or lost before, %d times since %s began",
				b.LogFailed, w.Node), "its log says why (the log was not kept, or entries had left it): "+
				"OPERATIONS.md, Backup and restore")
		}
	}
}
