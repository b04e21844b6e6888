package workspace

import "tollgate/engine/machine"

// enqueue puts a run behind the others that wait for a worker.
func (x *runner) enqueue(t *machine.Turn, row uint32) {
	x.dropFinished()
	r := x.runs.Write(row)
	r.Status, r.Next, r.Due = RunQueued, 0, t.Stamp+x.policy.QueueMS
	x.due.add(r.Due, dueRun, row)
	if x.lastQueued == 0 {
		x.firstQueued = row
	} else {
		x.runs.Write(x.lastQueued).Next = row
	}
	x.lastQueued = row
	x.queued++
}

// dropFinished takes runs off the queue's front that ended while they waited. Those further back
// stay until they come to the front.
func (x *runner) dropFinished() {
	for x.firstQueued != 0 && x.runs.Read(x.firstQueued).Status != RunQueued {
		x.dropFirst()
	}
}

func (x *runner) dropFirst() {
	x.runs.End(x.firstQueued) // if it has not ended, nothing comes of it
	if x.firstQueued = x.runs.Read(x.firstQueued).Next; x.firstQueued == 0 {
		x.lastQueued = 0
	}
}

// leave counts a run out of the status that it has.
func (x *runner) leave(r *run) {
	switch r.Status {
	case RunQueued:
		if r.Kind == RunHosted {
			x.queued--
		}
	case RunRunning:
		if r.Kind == RunHosted {
			x.running--
		}
	}
}
