package billing

import (
	"sync"
	"sync/atomic"

	"tollgate/engine/journal"
	"tollgate/engine/machine"
)

// core is what queries read. A reader for each kind of query embeds the one below it, so that a
// query sees those below it and nothing that Apply alone uses.
type core struct {
	machine.Asked
	// state is replaced whole by Restore.
	state   atomic.Pointer[state]
	journal *journal.Journal
	// applying is held by Apply and by Restore where it replaces what it read, for those queries
	// that must see keys and journal of one instant.
	applying sync.RWMutex
}

// accountReader answers queries about accounts, catalogs, keys, payments and webhooks.
type accountReader struct{ core }

// customerReader answers queries about customers, subscriptions, entitlements, invoices and pools.
type customerReader struct{ accountReader }

// journalReader answers queries that read the journal.
type journalReader struct{ customerReader }
