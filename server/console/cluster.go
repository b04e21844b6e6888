package console

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	api "tollgate/sdk/go"
	"tollgate/server"
	"tollgate/server/console/page"
)

func (s *Console) clusterRows() []row {
	return []row{
		local(within(reachCluster, "GET", "/cluster", "cluster", showCluster)),
		local(live(within(reachCluster, "GET", "/cluster/live", "cluster live", func(v *visit) {
			v.fragment("cluster", "live", v.cluster())
		}))),
		local(within(reachCluster, "GET", "/node", "node", showNode)),
		within(reachCluster, "POST", "/backup", "backup", backUp),
	}
}

// member is one of the cluster, as the page shows it.
type member struct{ api.ClusterMember }

// clusterStatus is what a node knows of its cluster, as the page shows it.
type clusterStatus struct{ api.ClusterStatus }

// Members are those of the cluster.
func (s clusterStatus) Members() (all []member) {
	for _, m := range s.ClusterStatus.Members {
		all = append(all, member{m})
	}
	return all
}

// Losses describes the effect of losing one more voter, where one is down.
func (s clusterStatus) Losses() string {
	voters, answer := s.Voters()
	text := strconv.Itoa(answer) + " of " + strconv.Itoa(voters) + " voters answer"
	switch need := voters/2 + 1; {
	case answer < need:
		return text + ", and writes need " + strconv.Itoa(need) + "."
	case answer == need:
		return text + ": one more loss stops writes."
	}
	return text + "."
}

// Led reports whether every group has a leader that this node knows of.
func (s clusterStatus) Led() bool {
	return !slices.ContainsFunc(s.Groups, func(g api.ClusterGroup) bool { return g.Leader == "" })
}

// RoundTrip is the last measured round trip; empty of a node that does not answer.
func (m member) RoundTrip() string {
	if m.RoundTripUS == 0 || !m.Reachable {
		return ""
	}
	return strconv.FormatFloat(float64(m.RoundTripUS)/1000, 'f', 2, 64) + " ms"
}

// Finding is something about the cluster, or a node, that needs attention.
type Finding struct {
	// Check names what was looked at, Node the node that it is about, "" for the cluster.
	Check, Node string
	// Fails reports whether it does not work, or is about to stop working.
	Fails bool
	// Says is what was found, Do what to do about it. It may name a chapter of OPERATIONS.md, or an
	// alert: "OPERATIONS.md, Disk full".
	Says, Do string
}

var chapterOf = regexp.MustCompile(`OPERATIONS\.md, ([A-Z][A-Za-z ]*[a-z])`)

// Chapter is where the chapter that Do names can be read; without one there is no URL.
func (f Finding) Chapter() (to page.Link) {
	named := chapterOf.FindStringSubmatch(f.Do)
	if named == nil {
		return to
	}
	to.Text = named[1]
	to.URL = "/docs/operate/" + strings.ReplaceAll(strings.ToLower(to.Text), " ", "-")
	if strings.HasPrefix(to.Text, "Tollgate") {
		to.URL = "/docs/operate/alerts#" + strings.ToLower(to.Text)
	}
	return to
}

// Remedy is Do without the name of the chapter at its end; elsewhere in a sentence it stays.
func (f Finding) Remedy() string {
	at := chapterOf.FindStringIndex(f.Do)
	if at == nil || at[1] < len(f.Do) {
		return f.Do
	}
	return strings.TrimSuffix(strings.TrimRight(f.Do[:at[0]], ":; "), "; then")
}

type clusterData struct {
	Manage   bool
	Status   clusterStatus
	Findings []Finding
	Load     loadData
	At       string
}

// cluster is this node's view of the cluster. It asks no other node, so that it works when none
// answers.
func (v *visit) cluster() (data clusterData) {
	data.Status = need[clusterStatus](v, v.admin, server.Call{Operation: "showCluster"})
	data.Manage = v.manage && data.Status.Led() // a backup asks the others
	if v.console.config.Findings != nil {
		data.Findings = v.console.config.Findings()
	}
	if v.console.pulse != nil {
		data.Load = v.console.pulse.shown()
	}
	data.At = v.console.config.Now().UTC().Format(time.RFC3339)
	return data
}

func showCluster(v *visit) {
	data := v.cluster()
	v.show(v.clusterPage("cluster", "Cluster", "Cluster",
		"As "+data.Status.NodeID+" sees it. The figures renew themselves.", data))
}

func (v *visit) clusterPage(name, tab, title, lead string, data any) page.View {
	p := page.View{Page: name, Title: title, Lead: lead, Data: data}
	for _, link := range []page.Link{
		{Text: "Cluster", URL: Root + "/cluster"}, {Text: "This node", URL: Root + "/node"},
	} {
		link.Here = link.Text == tab
		p.Tabs = append(p.Tabs, link)
	}
	return p
}

// nodeVitals are what a node says of itself, as the page shows it.
type nodeVitals struct{ api.NodeVitals }

// DiskMeter is how full the disk is.
func (n nodeVitals) DiskMeter() any {
	used := n.Disk.TotalBytes - n.Disk.FreeBytes
	return page.Meter(float64(used), float64(n.Disk.TotalBytes-n.Disk.ReserveBytes),
		"Disk: used of what may be used before writes are refused")
}

// MemoryMeter is how much memory is used.
func (n nodeVitals) MemoryMeter() any {
	return page.Meter(float64(n.Memory.UsedBytes), float64(n.Memory.LimitBytes),
		"Memory: used of the process's limit")
}

// KeysMeter is how many idempotency keys are held.
func (n nodeVitals) KeysMeter() any {
	return page.Meter(float64(n.Keys.Held), float64(n.Keys.Limit),
		"Idempotency keys: held of the most")
}

type journalPart struct {
	Part            string
	Segments, Bytes uint64
	Oldest          string
}

type nodeData struct {
	Vitals  nodeVitals
	Journal []journalPart
	Groups  []api.ClusterGroup
	Manage  bool
	Counts  []countedRecords
}

type countedRecords struct {
	What  string
	Count uint64
}

// showNode is how this node itself is. Measuring its disk may take a second.
func showNode(v *visit) {
	data := nodeData{
		Vitals: need[nodeVitals](v, v.admin, server.Call{Operation: "showNode"}),
		Groups: need[clusterStatus](v, v.admin, server.Call{Operation: "showCluster"}).Groups,
		Manage: v.manage,
	}
	data.Vitals.StartedAt = data.Vitals.StartedAt.Truncate(time.Second)
	for i := range data.Groups {
		data.Groups[i].SnapshotAt = data.Groups[i].SnapshotAt.Truncate(time.Second)
	}
	stats := v.console.config.Machine.Stats()
	for _, part := range stats.Journal {
		shown := journalPart{
			Part: part.Part, Segments: uint64(part.Segments), Bytes: uint64(part.Bytes),
		}
		if part.OldestAt != 0 {
			shown.Oldest = string(server.AppendTime(nil, part.OldestAt))
		}
		data.Journal = append(data.Journal, shown)
	}
	data.Counts = []countedRecords{
		{"accounts", stats.Accounts},
		{"API keys", stats.APIKeys},
		{"customers", stats.Customers},
		{"subscriptions", stats.Subscriptions},
		{"invoices", stats.Invoices},
		{"usage events", stats.UsageEvents},
		{"audit events", stats.AuditEvents},
	}
	v.show(v.clusterPage("node", "This node", "Node "+data.Vitals.Node,
		"How this node itself is: disk, memory, journal.", data))
}

// backUp lets the admin API's row stream a backup to the browser.
func backUp(v *visit) {
	route, known := v.console.config.Admin.Operation("makeBackup")
	if !known {
		v.x.Refuse(server.FaultInternal)
		return
	}
	v.console.config.Log.Info("an operator makes a backup by the pages", "operator", v.who.Name,
		"request_id", string(v.x.RequestID()))
	v.console.site.Guard(v.x)
	route.Handle(v.x)
	if v.x.Ctx.Response.IsBodyStream() { // a refusal is a page, and no file
		v.x.Ctx.Response.Header.Set("Content-Disposition", `attachment; filename="tollgate-`+
			v.console.config.Now().UTC().Format("20060102-150405")+`.backup"`)
	}
}
