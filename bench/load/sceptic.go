package load

import (
	"fmt"
	"strings"
)

// Doubt is what a sceptic says of the table, and what the harness does about it.
type Doubt struct{ Says, Answer string }

// Doubts are answered with what was measured, where it was.
func (f *Figures) Doubts() []Doubt {
	share, written, snapshots := f.ofComparisons()
	return []Doubt{
		{
			"The generator's processor time is on both sides of each ratio, and flatters it.",
			"The first figure is the processor time of the servers' processes for a unit; the generator's is " +
				"excluded. Rates are shown next to it." + share,
		},
		{
			"The bare handler is the limit of fasthttp, and not of HTTP.",
			"It is measured twice: by fasthttp, which Tollgate uses, and by a loop over epoll without a library.",
		},
		{
			"Redis pays for an HTTP hop and a script, on one thread; its users pipeline.",
			"Redis also runs with a thread for connections on each core, and the faster one counts; " +
				"redis-benchmark calls the same script, and GET, without the front, in pipelines of 1, 16 and 100. " +
				"The rows with HTTP compare services; those without say what HTTP costs.",
		},
		{
			"Checks and events are sent to the leader; a load balancer spreads them.",
			"One that asks /leader does not. Events through all nodes have a row of their own.",
		},
		{
			"Three nodes share a disk, a kernel and two cores, with no network between them.",
			"One part puts 1 ms each way between the nodes, by proxies whose processor time is the generator's. " +
				"Disk and cores stay shared, which favours the peers: they keep one copy, but for etcd.",
		},
		{
			"Rounds of seconds rarely meet a snapshot, or a large heap.",
			"How many snapshots fell into the rounds stands in each row." + snapshots + " Rows of their own " +
				"measure ingest during snapshots, and a million customers; --parts large has 50 million keys.",
		},
		{
			"The p99 of a closed loop at saturation hides the time for which requests wait.",
			"Latencies are those of an open loop at 70 % of the rate that the closed one reached, and count from " +
				"when a request was due, whatever became of those before it. A generator that is itself late by " +
				"more than 10 ms (p99) is refused.",
		},
		{
			"The figures omit how much is written for an event.",
			"Bytes that each process had the kernel write to disks, for a unit: next to each rate." + written,
		},
		{
			"Somebody else used the machine.",
			fmt.Sprintf("More than %.1f foreign cores, or %.0f %% steal, marks a row DISTURBED, and such "+
				"a row cannot be recorded. ", maxForeign, 100*maxSteal) + f.disturbances(),
		},
	}
}

// ofComparisons are sentences about the comparisons; empty if there was none.
func (f *Figures) ofComparisons() (share, written, snapshots string) {
	var shares, bytes []string
	count := 0
	for _, c := range f.Comparisons {
		for i := range c.Results {
			r := &c.Results[i]
			name := fmt.Sprintf("%s of %s", r.load(), r.System)
			shares = append(shares, fmt.Sprintf("%s %.0f %%", name, 100*r.Generator))
			if r.Scenario.writes() && len(r.Rounds) > 0 && r.last().WrittenEach() != "0" {
				bytes = append(bytes, name+" "+r.last().WrittenEach())
			}
			count += r.Snapshots
		}
	}
	if len(shares) == 0 {
		return "", "", ""
	}
	return " Its share: " + strings.Join(shares, ", ") + ".", " " + strings.Join(bytes, ", ") + ".",
		fmt.Sprintf(" Here: %d in all comparisons.", count)
}

// disturbances say which parts were disturbed.
func (f *Figures) disturbances() string {
	var all []string
	told := map[string]bool{}
	for _, row := range f.Rows() {
		if row.Verdict != VerdictUnknown && row.Disturbed != "" && !told[row.Part] {
			told[row.Part] = true
			all = append(all, row.Part+": "+row.Disturbed)
		}
	}
	if len(all) == 0 {
		return "No part of this report is marked."
	}
	return "Marked in this report: " + strings.Join(all, "; ") + "."
}
