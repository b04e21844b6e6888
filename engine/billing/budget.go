package billing

import (
	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/rows"
)

// BindKey makes requests with an API key count at a budget, or below it.
type BindKey struct {
	Env    uint32   `wire:"1"`
	ID     [16]byte `wire:"2"`
	Budget string   `wire:"3"` // its key; empty: the key is bound to none
	Actor  string   `wire:"4"`
}

func (c *BindKey) apply(t *turn) engine.Outcome {
	e := t.Environment(c.Env)
	if e == nil {
		return engine.OutcomeAccountUnknown
	}
	k := e.APIKey(c.ID)
	if k == nil || k.Revoked.Load() != nil {
		return engine.OutcomeKeyUnknown
	}
	node, before := uint32(0), ""
	if c.Budget != "" {
		if node = t.budgets.Forest.Named(c.Env, []byte(c.Budget)); node == 0 {
			return engine.OutcomeBudgetUnknown
		}
	}
	if k.Budget == node {
		return engine.OutcomeDone
	}
	if k.Budget != 0 {
		before = t.budgets.Forest.Key(k.Budget)
	}
	t.BindKey(k, node)
	t.Fold(accounts.KeyHash(&k.Hash) ^ uint64(node))
	t.NoteChange(c.Env, c.Actor, "key.bound", rows.UUIDText(c.ID),
		accounts.Changed("budget", before, c.Budget))
	return engine.OutcomeDone
}

// Budget is a node of an environment, as of the present instant; false where there is none.
func (m *customerReader) Budget(env uint32, key string) (v BudgetView, ok bool) {
	s, now, unlock := m.budgets(env)
	defer unlock()
	return s.budgets.Forest.View(env, []byte(key), now, s.budgets.Names(env))
}

// BudgetsOf lists the nodes that are a customer's own: one, or none. False: there is no such
// customer.
func (m *customerReader) BudgetsOf(env uint32, customer string) (views []BudgetView, ok bool) {
	row := m.CustomerRow(env, []byte(customer))
	if row == 0 {
		return nil, false
	}
	s, now, unlock := m.budgets(env)
	defer unlock()
	if v, ok := s.budgets.Forest.OwnView(row, now, s.budgets.Names(env)); ok {
		views = append(views, v)
	}
	return views, true
}

// Budgets lists the nodes right below a parent, or the roots where that is empty, at most limit.
// after is where the page before ended, next where this one does if there are more. False: there is
// no such parent.
func (m *customerReader) Budgets(env uint32, parent, after string, limit int) (
	views []BudgetView, next string, ok bool,
) {
	s, now, unlock := m.budgets(env)
	defer unlock()
	return s.budgets.Forest.List(env, parent, after, limit, now, s.budgets.Names(env))
}

// BudgetWindows returns the kept closed windows of each limit of a node, newest first. It
// returns false if the node does not exist.
func (m *customerReader) BudgetWindows(env uint32, key string) ([][]BudgetWindowView, bool) {
	s, now, unlock := m.budgets(env)
	defer unlock()
	return s.budgets.Forest.Windows(env, []byte(key), now)
}

// budgets locks the budgets of an environment for a query.
func (m *customerReader) budgets(env uint32) (s *state, now int64, unlock func()) {
	s = m.state.Load()
	now = s.Log.Stamp()
	if e := s.Environment(env); e != nil {
		now = e.Now(now)
	}
	lock := s.budgets.Forest.Lock(env)
	lock.RLock()
	return s, now, lock.RUnlock
}
