package workspace

// enqueue puts a run behind the others that wait for a worker.
func (t *turn) enqueue(row uint32) {
	t.dropFinished()
	r := t.runs.Write(row)
	r.Status, r.Next, r.Due = RunQueued, 0, t.Stamp+t.policy.QueueMS
	t.due.add(r.Due, dueRun, row)
	if t.lastQueued == 0 {
		t.firstQueued = row
	} else {
		t.runs.Write(t.lastQueued).Next = row
	}
	t.lastQueued = row
	t.queued++
}

// dropFinished takes runs off the queue's front that ended while they waited. Those further back
// stay until they come to the front.
func (t *turn) dropFinished() {
	for t.firstQueued != 0 && t.runs.Read(t.firstQueued).Status != RunQueued {
		t.dropFirst()
	}
}

func (t *turn) dropFirst() {
	t.runs.End(t.firstQueued) // if it has not ended, nothing comes of it
	if t.firstQueued = t.runs.Read(t.firstQueued).Next; t.firstQueued == 0 {
		t.lastQueued = 0
	}
}

// leave counts a run out of the status that it has.
func (t *turn) leave(r *run) {
	switch r.Status {
	case RunQueued:
		if r.Kind == RunHosted {
			t.queued--
		}
	case RunRunning:
		if r.Kind == RunHosted {
			t.running--
		}
	}
}
