// Package search finds records of an environment by what a person types: customers by the beginning
// of their id, name or e-mail, invoices by their number, events by their key, API keys by their
// label, and records by their UUID. See DESIGN.md.
package search

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"tollgate/engine/billing"
	"tollgate/engine/idempotency"
	"tollgate/engine/journal"
	"tollgate/server"
)

// MaxText is the longest text that anything is found by, in bytes: of an event's key, four a
// character.
const MaxText = 4 * 255

// Result is one record that was found.
//
//schema:answer billingview SearchResult
type Result struct {
	Kind string `json:"kind" rule:"oneof=customer|invoice|subscription|event|key"`
	// ID is what the record is asked for by.
	ID     string `json:"id" rule:"min=1"`
	Title  string `json:"title"`
	Detail string `json:"detail,omitzero"`
	// Customer is whose record it is.
	Customer string `json:"customerReferenceId,omitzero"`
	// At is when an event occurred.
	At int64 `json:"occurredAt,omitzero" as:"time"`

	// rank orders results: what was named exactly comes first.
	rank int
}

// Found is what a search found, the best first.
//
//schema:answer billingview SearchAnswer
type Found struct {
	Results []Result `json:"results"`
	// Complete is false where not all was looked at: this node is still making its index, or cannot
	// hold all of it, or cannot read its journal.
	Complete bool `json:"complete"`
}

// Ranks of results.
const (
	rankExact = iota
	rankID
	rankText
)

// Config is what a Searcher looks into.
type Config struct {
	Machine *billing.Machine
	// Events finds usage events; nil finds none. Keys looks for those that have left memory; nil
	// where none ever does.
	Events journal.Source
	Keys   idempotency.Finder
	// MaxRows bounds the customers of all indexes together, at 16 bytes each; 0 is 8 million.
	MaxRows int
}

// Searcher searches. Safe for concurrent use.
type Searcher struct {
	config Config
	index  index
}

// New makes a Searcher. It has no index until it is asked.
func New(c Config) *Searcher {
	s := &Searcher{config: c}
	s.index.open(c.Machine, cmp.Or(c.MaxRows, 8<<20))
	return s
}

// Query asks for records of an environment.
type Query struct {
	Env   uint32
	Text  string
	Limit int
	// Keys also finds API keys by their label, Hints these by what listings show of the key, too.
	Keys, Hints bool
	// Patience is how long a missing index may be worked at.
	Patience time.Duration
}

// Find finds what a text names. A text that nothing can be named finds nothing.
func (s *Searcher) Find(q *Query) Found {
	found := Found{Results: []Result{}, Complete: true}
	q.Text = strings.TrimSpace(q.Text)
	if q.Text == "" || len(q.Text) > MaxText || !utf8.ValidString(q.Text) {
		return found
	}
	deadline := time.Now().Add(q.Patience)
	s.findIDs(q, &found)
	s.findCustomers(q, deadline, &found) // before invoices: it learns of a state that was restored
	s.findInvoice(q, deadline, &found)
	s.findEvent(q, &found)
	if q.Keys {
		s.findKeys(q, &found)
	}
	slices.SortStableFunc(found.Results, func(a, b Result) int { return cmp.Compare(a.rank, b.rank) })
	found.Results = found.Results[:min(len(found.Results), q.Limit)]
	return found
}

// findIDs finds the record that a UUID names.
func (s *Searcher) findIDs(q *Query, found *Found) {
	id, ok := server.ParseUUID([]byte(q.Text))
	if !ok {
		return
	}
	m := s.config.Machine
	if c, ok := m.CustomerByID(q.Env, id); ok {
		found.add(customerResult(&billing.CustomerNames{
			ExternalID: c.ExternalID, FirstName: c.FirstName, LastName: c.LastName, Email: c.Email,
		}, rankExact))
	}
	if v, ok := m.Invoice(q.Env, id); ok {
		found.add(invoiceResult(&v))
	}
	if v, ok := m.Subscription(q.Env, id); ok {
		found.add(Result{
			Kind: "subscription", ID: q.Text, Title: v.Plan.Name, Detail: v.Customer.ExternalID,
			Customer: v.Customer.ExternalID,
		})
	}
}

// findEvent finds the usage event of a key.
func (s *Searcher) findEvent(q *Query, found *Found) {
	if s.config.Events == nil {
		return
	}
	ref, ok, err := s.config.Machine.FindUsage(s.config.Events, s.config.Keys, q.Env,
		billing.UsageKey(q.Env, []byte(q.Text)))
	found.Complete = found.Complete && err == nil
	if err != nil || !ok {
		return
	}
	owner, _ := s.config.Machine.CustomerNames(q.Env, ref.Owner)
	found.add(Result{
		Kind: "event", ID: q.Text, Title: q.Text, Detail: owner.ExternalID, Customer: owner.ExternalID,
		At: ref.OccurredAt(),
	})
}

// findKeys finds API keys by the beginning of their label and, where the query asks for it, of what
// listings show of the key.
func (s *Searcher) findKeys(q *Query, found *Found) {
	text, left := fold(q.Text), q.Limit
	for _, k := range s.config.Machine.Keys(q.Env) {
		label := fold(k.Label)
		hinted := q.Hints && strings.HasPrefix(k.Hint, q.Text)
		if left == 0 || !strings.HasPrefix(label, text) && !hinted {
			continue
		}
		left--
		r := Result{
			Kind: "key", ID: string(server.AppendUUID(nil, k.ID)), Title: cmp.Or(k.Label, k.Hint),
			Detail: k.Scope.String(), Customer: k.Customer, rank: rankText,
		}
		if k.RevokedAt != 0 {
			r.Detail += ", revoked"
		}
		if label == text {
			r.rank = rankExact
		}
		found.add(r)
	}
}

// findCustomers finds customers by what their id, name or e-mail begins with.
func (s *Searcher) findCustomers(q *Query, deadline time.Time, found *Found) {
	m, text := s.config.Machine, fold(q.Text)
	rows, complete := s.index.find(q.Env, text, q.Limit, deadline)
	found.Complete = found.Complete && complete
	named := m.CustomerRow(q.Env, []byte(q.Text))
	for _, row := range append(rows, named) {
		n, ok := m.CustomerNames(q.Env, row)
		if !ok {
			continue
		}
		rank := rankText
		if id := fold(n.ExternalID); row == named || n.ExternalID == q.Text || fold(n.Email) == text {
			rank = rankExact
		} else if strings.HasPrefix(id, text) {
			rank = rankID
		}
		found.add(customerResult(&n, rank))
	}
}

// add adds a record that is not there yet.
func (f *Found) add(r Result) {
	same := func(o Result) bool { return o.Kind == r.Kind && o.ID == r.ID }
	if !slices.ContainsFunc(f.Results, same) {
		f.Results = append(f.Results, r)
	}
}

func customerResult(n *billing.CustomerNames, rank int) Result {
	return Result{
		Kind: "customer", ID: n.ExternalID, Title: cmp.Or(strings.TrimSpace(n.FirstName+" "+n.LastName),
			n.ExternalID), Detail: n.Email, Customer: n.ExternalID, rank: rank,
	}
}

func invoiceResult(v *billing.InvoiceView) Result {
	title := "Next invoice"
	if v.Number > 0 {
		title = "Invoice " + strconv.FormatUint(v.Number, 10)
	}
	return Result{
		Kind: "invoice", ID: string(server.AppendUUID(nil, v.ID)), Title: title,
		Detail: v.Amount.String() + " " + v.Currency + ", " + v.Status.String(), Customer: v.Customer,
	}
}

// fold makes texts that differ in case alone equal.
func fold(text string) string { return strings.ToLower(text) }
