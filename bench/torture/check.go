package torture

// check names what finds a broken promise.
type check struct {
	name string
	// inside: it looks at what no client is told, as a hash of the state or a process that ended.
	// Such a check is worth having, and proves nothing about what clients would notice.
	inside bool
}

// All checks. Those that are not inside look at answers of the APIs and at webhooks only.
var (
	byHistories    = check{name: "histories"}
	byAnswers      = check{name: "answers"}
	byStaleReads   = check{name: "stale reads"}
	byCounters     = check{name: "counters"}
	byListings     = check{name: "lists of events"}
	byCredits      = check{name: "credits"}
	byReservations = check{name: "reservations"}
	byTopUps       = check{name: "top-ups"}
	byDuplicates   = check{name: "events sent again"}
	byInvoices     = check{name: "invoices"}
	byWebhooks     = check{name: "webhooks"}
	byLogTimes     = check{name: "log time"}
	byProofs       = check{name: "invoices recomputed by a node", inside: true}
	byStates       = check{name: "state hashes", inside: true}
	byProcesses    = check{name: "processes", inside: true}
)

// Violation is a promise that was broken.
type Violation struct {
	// Check is the name of the check that found it.
	Check string
	Text  string
}

// String is the check and the text.
func (v Violation) String() string { return v.Check + ": " + v.Text }
