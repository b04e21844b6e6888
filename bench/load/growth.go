package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	api "tollgate/sdk/go"
)

// Scenarios of what size costs.
const (
	// ScenarioScale records batches with few customers and no keys, and again with Customers and
	// Events before, and compares the processor time of an event.
	ScenarioScale Scenario = "scale"
	// ScenarioMemory measures what Customers and Events keep a node's memory and disk busy with.
	ScenarioMemory Scenario = "memory"
)

// fewCustomers is how many ScenarioScale begins with.
const fewCustomers = 1000

// ScaleReport is what came of ScenarioScale.
type ScaleReport struct {
	// Customers and Events are those of the large side.
	Customers, Events int
	// Sizes are of batches, single events and checks.
	Sizes []ScaleSizes
}

// ScaleSizes is a load with few customers, and with many.
type ScaleSizes struct {
	Scenario     Scenario
	Small, Large Report
	// Cost is the processor time of a unit, of all processes of the system together, with many
	// customers and keys by that with few.
	Cost float64
}

// scaled are the loads that are compared, and their connections; 0 is Config's.
var scaled = []struct {
	Scenario
	connections int
}{{ScenarioBatch, 0}, {ScenarioIngest, 256}, {ScenarioCheck, 64}}

// Scale carries out ScenarioScale. Each load refuses as it does by itself.
func (r *Run) Scale(ctx context.Context) (report ScaleReport, err error) {
	if len(r.Processes) == 0 {
		return report, errors.New("scale needs a system whose processes run on this machine")
	}
	report.Customers, report.Events = r.Customers, r.Events
	small, err := r.loads(ctx, fewCustomers, 0)
	if err != nil {
		return report, err
	}
	large, err := r.loads(ctx, r.Customers, r.Events)
	if err != nil {
		return report, err
	}
	for i, load := range scaled {
		one := ScaleSizes{Scenario: load.Scenario, Small: small[i], Large: large[i]}
		cost := one.Small.Cost()
		if cost == 0 {
			return report, refuse("the processor time of the system cannot be read")
		}
		one.Cost = one.Large.Cost() / cost
		report.Sizes = append(report.Sizes, one)
	}
	return report, nil
}

// loads puts all loads on the same customers, one after the other.
func (r *Run) loads(ctx context.Context, customers, events int) (reports []Report, err error) {
	var first *Run
	for n, load := range scaled {
		c := r.Config
		c.Scenario, c.Customers, c.Events = load.Scenario, customers, events
		c.Connections = cmp.Or(load.connections, c.Connections)
		run, err := New(c)
		if err != nil {
			return nil, err
		}
		if first == nil {
			first = run
		} else {
			run.follow(first, n)
		}
		report, err := run.Do(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s, %d customers: %w", c.Scenario, customers, err)
		}
		r.Progress.say("%s, %d customers, %d events before: %.0f a second, %.2f µs each",
			c.Scenario, customers, events, report.UnitRate, 1e6*report.Cost())
		reports = append(reports, report)
	}
	return reports, nil
}

// keysApart is how many connections, and batches of fill, each load has keys for.
const keysApart = 1_000_000

// follow makes the run the n-th load on the customers of another.
func (r *Run) follow(first *Run, n int) {
	r.name, r.made, r.firstKey = first.name, true, n*keysApart
	r.acknowledged, r.unknown, r.checks = first.acknowledged, first.unknown, first.checks
}

func (r *ScaleReport) text() string {
	var ratios, sides []string
	for _, s := range r.Sizes {
		ratios = append(ratios, fmt.Sprintf("%.2f", s.Cost))
		sides = append(sides, fmt.Sprintf("%s %.2f → %.2f µs", s.Scenario, 1e6*s.Small.Cost(),
			1e6*s.Large.Cost()))
	}
	return fmt.Sprintf("%s × (%d customers, %d keys: %s; %d snapshots)", strings.Join(ratios, " · "),
		r.Customers, r.Events, strings.Join(sides, ", "), r.Sizes[0].Large.Snapshots)
}

// Print writes the report as a table.
func (r ScaleReport) Print(out io.Writer) error {
	for _, s := range r.Sizes {
		for _, part := range []*Report{&s.Small, &s.Large} {
			if err := part.Print(out); err != nil {
				return err
			}
		}
	}
	return printf(out, "processor time with many customers by that with few: %s\n", r.text())
}

// MemoryReport is what came of ScenarioMemory: bytes, means of the nodes.
type MemoryReport struct {
	Config
	Name string
	// Customer is what a customer with a subscription takes of the heap after a collection, Event
	// what an event does, which is its key; Journal is what an event takes of the disk for good.
	Customer, Event, Journal float64
	// Keys is where the idempotency keys are in the end.
	Keys     KeyTiers
	Verified Verification
}

// KeyTiers are the idempotency keys by where they are, and the bytes that they take there: means of
// the nodes.
type KeyTiers struct {
	// InMemory and OnDisk count them; MemoryBytes is what the former take.
	InMemory, OnDisk, MemoryBytes float64
	// InFiles are in files on disk, some of them in memory, too; FilterBytes is what these take in
	// memory, FileBytes on disk.
	InFiles, FilterBytes, FileBytes float64
}

// Metrics of a node that ScenarioMemory reads.
const (
	heapMetric    = `go_memstats_heap_alloc_bytes `
	journalMetric = `tollgate_journal_bytes{part="usage"} `

	keysMetric        = `tollgate_idempotency_keys `
	keysOnDiskMetric  = `tollgate_idempotency_keys_on_disk `
	keyBytesMetric    = `tollgate_state_bytes{part="idempotency_keys"} `
	fileKeysMetric    = `tollgate_cluster_key_files_keys{group="billing"} `
	filterBytesMetric = `tollgate_cluster_key_files_memory_bytes{group="billing"} `
	fileBytesMetric   = `tollgate_cluster_key_files_bytes{group="billing"} `
)

// Footprint carries out ScenarioMemory.
func (r *Run) Footprint(ctx context.Context) (MemoryReport, error) {
	report := MemoryReport{Config: r.Config, Name: r.name}
	if len(r.Admin.Nodes) == 0 || r.Events == 0 {
		return report, errors.New("memory needs a cluster of `tollgate dev`, and --events")
	}
	empty, _, err := r.held(ctx)
	if err != nil {
		return report, err
	}
	if err = r.createCustomers(ctx); err != nil {
		return report, fmt.Errorf("create customers: %w", err)
	}
	customers, before, err := r.held(ctx)
	if err != nil {
		return report, err
	}
	if err = r.fill(ctx, r.Events); err != nil {
		return report, fmt.Errorf("record events: %w", err)
	}
	if report.Verified, err = r.verify(ctx); err != nil {
		return report, refuse("%s", err.Error())
	}
	events, after, err := r.held(ctx)
	if err != nil {
		return report, err
	}
	report.Keys, err = r.tiers(ctx)
	report.Customer = (customers - empty) / float64(r.Customers)
	report.Event = (events - customers) / float64(r.Events)
	report.Journal = (after - before) / float64(r.Events)
	return report, err
}

// held is what a node has on its heap after a collection, and in its journal of usage: means.
func (r *Run) held(ctx context.Context) (heap, journal float64, err error) {
	for _, node := range r.Admin.Nodes {
		// The first collection moves pools to where the second one frees them.
		for range 2 {
			if err = r.collectGarbage(ctx, node); err != nil {
				return 0, 0, err
			}
		}
		m, err := metrics(ctx, node, heapMetric, journalMetric)
		if err != nil {
			return 0, 0, err
		}
		heap += m[heapMetric] / float64(len(r.Admin.Nodes))
		journal += m[journalMetric] / float64(len(r.Admin.Nodes))
	}
	return heap, journal, nil
}

// tiers is where the nodes have the idempotency keys.
func (r *Run) tiers(ctx context.Context) (k KeyTiers, err error) {
	count := float64(len(r.Admin.Nodes))
	for _, node := range r.Admin.Nodes {
		m, err := metrics(ctx, node, keysMetric, keysOnDiskMetric, keyBytesMetric, fileKeysMetric,
			filterBytesMetric, fileBytesMetric)
		if err != nil {
			return k, err
		}
		k.InMemory += (m[keysMetric] - m[keysOnDiskMetric]) / count
		k.OnDisk += m[keysOnDiskMetric] / count
		k.MemoryBytes += m[keyBytesMetric] / count
		k.InFiles += m[fileKeysMetric] / count
		k.FilterBytes += m[filterBytesMetric] / count
		k.FileBytes += m[fileBytesMetric] / count
	}
	return k, nil
}

// String is one line for each tier.
func (k KeyTiers) String() string {
	return fmt.Sprintf("keys      %.0f in memory, %.1f bytes each; %.0f on disk\n"+
		"key files %.0f keys, %.2f bytes of memory and %.1f bytes of disk each\n",
		k.InMemory, k.MemoryBytes/max(k.InMemory, 1), k.OnDisk, k.InFiles,
		k.FilterBytes/max(k.InFiles, 1), k.FileBytes/max(k.InFiles, 1))
}

// collectGarbage makes a node collect: its profile of the heap is of after that.
func (r *Run) collectGarbage(ctx context.Context, node string) error {
	profile := api.Request{Method: "GET", Path: "/debug/pprof/heap?gc=1"}
	answer, err := ask(ctx, node, r.Admin.Key, profile)
	if err = cmp.Or(err, answer.Err()); err != nil {
		return fmt.Errorf("the profile of %s: %w", node, err)
	}
	return nil
}

// Print writes the report.
func (r MemoryReport) Print(out io.Writer) error {
	return printf(out, "scenario  %s on %s: %d customers, %d events, means of %d nodes\n"+
		"memory    %.0f bytes a customer with a subscription, %.1f bytes an event\n"+
		"journal   %.0f bytes an event\n%scounted   %d, acknowledged %d\n", r.Scenario, r.System,
		r.Customers, r.Events, len(r.Admin.Nodes), r.Customer, r.Event, r.Journal, r.Keys,
		r.Verified.Counted, r.Verified.Acknowledged)
}
