package billing

import (
	"sync"
	"sync/atomic"

	"tollgate/engine/journal"
	"tollgate/engine/machine"
)

// core is what queries read. Each kind of query has a reader, which embeds the one below it. So a
// query sees what is below it, and nothing that only Apply uses.
type core struct {
	machine.Asked
	// Restore replaces state whole.
	state   atomic.Pointer[state]
	journal *journal.Journal
	// applying is held by Apply, and by Restore while it replaces the state, for queries that need
	// keys and journal of one instant.
	applying sync.RWMutex
}

// accountReader answers queries about accounts, catalogs, keys, payments and webhooks.
type accountReader struct{ core }

// customerReader answers queries about customers, subscriptions, entitlements, invoices and pools.
type customerReader struct{ accountReader }

// journalReader answers queries that read the journal.
type journalReader struct{ customerReader }
