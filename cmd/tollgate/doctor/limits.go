package doctor

import "fmt"

func (c *chart) openFiles(f OpenFiles) {
	says := fmt.Sprintf("%d may be open, %d may be needed", f.Limit, f.Needed)
	const do = "raise the limit (ulimit -n, LimitNOFILE= of the unit) and restart it, or lower " +
		"connections.total"
	switch {
	case f.Limit <= f.Own:
		c.fail("open files", fmt.Sprintf("%s, %d for the node itself: a client at a time is left", says,
			f.Own), do)
	case f.Limit < f.Needed:
		c.warn("open files", fmt.Sprintf("%s: it holds %d connections of clients in place of %d", says,
			f.Limit-f.Own, f.Needed-f.Own), do)
	default:
		c.ok("open files", "%s", says)
	}
}

// fullMemory and fullKeys are the parts of a budget, in percent, above which it is nearly spent.
const (
	fullMemory = 85
	fullKeys   = 80
)

func (c *chart) memory(m Memory) {
	says := fmt.Sprintf("%s may be used, of the machine's %s", inUnits(int64(m.LimitBytes)),
		inUnits(int64(m.MachineBytes)))
	if m.UsedBytes > 0 {
		says = inUnits(int64(m.UsedBytes)) + " are used; " + says
	}
	switch {
	case m.MachineBytes > 0 && m.LimitBytes > m.MachineBytes:
		c.fail("memory", says+": the kernel ends the process before it has what it may use",
			"lower memoryMiB, or leave it at 0")
	case m.UsedBytes > m.LimitBytes/100*fullMemory:
		c.warn("memory", says, "use a larger machine, or fewer and shorter kept idempotency keys: "+
			"OPERATIONS.md, Capacity")
	default:
		c.ok("memory", "%s", says)
	}
}

func (c *chart) keys(k Keys) {
	if k.Limit == 0 {
		return
	}
	says := fmt.Sprintf("%d of %d idempotency keys that fit", k.Held, k.Limit)
	if k.Held > k.Limit/100*fullKeys {
		c.warn("idempotency keys", says+": with a full table events are refused", "raise "+
			"limits.keyMemoryMiB, or lower limits.keyRetention: OPERATIONS.md, Capacity")
		return
	}
	c.ok("idempotency keys", "%s", says)
}
