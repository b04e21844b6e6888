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

// fullMemory, fullKeys and fullReservations are the parts of a budget, in percent, above which it
// is nearly spent. Keys in memory are a quarter of what may be there when files are made as they
// should be.
const (
	fullMemory       = 85
	fullKeys         = 80
	fullKeyMemory    = 50
	fullReservations = 80
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
	const check = "idempotency keys"
	inMemory := k.Held - min(k.Held, k.OnDisk)
	says := fmt.Sprintf("%d of %d idempotency keys that fit", k.Held, k.Limit)
	if k.OnDisk > 0 {
		says += fmt.Sprintf(", %d of them on disk, whose filters take %s", k.OnDisk,
			inUnits(int64(k.FilterBytes)))
	}
	switch {
	case k.Uncovered > 0:
		c.fail(check, fmt.Sprintf("%s; %d of these are in no file of this node yet: it records no "+
			"usage events%s", says, k.Uncovered, because(k.Problem)),
			"let the others record them, and wait; when these get no fewer, see why it cannot make files")
	case k.Problem != "":
		c.warn(check, says+"; files of older ones cannot be made here"+because(k.Problem),
			"see to that, before keys leave memory that this node has in no file: OPERATIONS.md, "+
				"TollgateKeyFilesFail")
	case inMemory > k.MemoryLimit/100*fullKeyMemory:
		c.warn(check, fmt.Sprintf("%s; %d are in memory, of %d at most: beyond that events are refused",
			says, inMemory, k.MemoryLimit), "see whose files are behind, in heldUpBy of `tollgate cluster "+
			"status --json` on the leader: OPERATIONS.md, TollgateKeysStayInMemory")
	case k.Held > k.Limit/100*fullKeys:
		c.warn(check, says+": with a full table events are refused", "raise "+
			"limits.keyMemoryMiB, or lower limits.keyRetention: OPERATIONS.md, Capacity")
	default:
		c.ok(check, "%s", says)
	}
}

func (c *chart) reservations(r Reservations) {
	const check = "reservations"
	says := fmt.Sprintf("%d of %d reservations that fit, closed ones included", r.Kept, r.Limit)
	if r.Kept > r.Limit/100*fullReservations {
		c.warn(check, says+": beyond it new ones are refused", "raise limits.reservationMemoryMiB, or "+
			"lower limits.keyRetention: OPERATIONS.md, TollgateReservationsFull")
		return
	}
	c.ok(check, "%s", says)
}

// because joins a reason to what is said, where there is one.
func because(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}
