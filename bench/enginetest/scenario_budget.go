package enginetest

import (
	"fmt"
	"strconv"
	"strings"

	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/zone"
)

// budgetLines are the commands about budgets.
type budgetLines struct{ *scenario }

// budget makes or replaces a budget: budget KEY [parent=] [customer=] [name=], its limits below it:
// units FEATURE|price CURRENCY|cost LIMIT WINDOW [zone=] [feature=] [at=50,90] [soft].
func (s budgetLines) budget(l *line) string {
	c := &billing.PutBudget{
		Env: s.environment(l), Key: l.word(0), Parent: l.value("parent", ""),
		Customer: l.value("customer", ""),
	}
	c.Name = l.value("name", c.Key)
	for text := range strings.Lines(l.d.Input) {
		d, z := budgetLimit(l, strings.Fields(text))
		c.Limits = append(c.Limits, d)
		if z != nil {
			c.Zones = append(c.Zones, *z)
		}
	}
	return s.do(billing.KindPutBudget, c)
}

func budgetLimit(l *line, words []string) (d billing.LimitDocument, z *zone.Zone) {
	d.Of = named[billing.Measure](words[0])
	words = words[1:]
	switch d.Of {
	case billing.MeasureUnits:
		d.Feature, words = words[0], words[1:]
	case billing.MeasurePrice:
		d.Currency, words = words[0], words[1:]
	}
	var err error
	d.Limit, err = decimal.Parse(words[0])
	l.must(err)
	d.Window = named[billing.Window](words[1])
	for _, word := range words[2:] {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "zone":
			d.TimeZone = value
			z = Zone(value)
		case "feature":
			d.Feature = value
		case "soft":
			d.Soft = true
		case "at":
			for text := range strings.SplitSeq(value, ",") {
				percent, err := strconv.Atoi(text)
				l.must(err)
				d.Thresholds = append(d.Thresholds, byte(percent))
			}
		default:
			l.must(fmt.Errorf("a limit has no %q", word))
		}
	}
	return d, z
}

// move puts a budget under another: move-budget KEY [parent=].
func (s budgetLines) move(l *line) string {
	return s.do(billing.KindMoveBudget, &billing.MoveBudget{
		Env: s.environment(l), Key: l.word(0), Parent: l.value("parent", ""),
	})
}

func (s budgetLines) freeze(l *line) string { return s.setFrozen(l, true) }

func (s budgetLines) unfreeze(l *line) string { return s.setFrozen(l, false) }

func (s budgetLines) setFrozen(l *line, frozen bool) string {
	return s.do(billing.KindFreezeBudget, &billing.FreezeBudget{
		Env: s.environment(l), Key: l.word(0), Frozen: frozen,
	})
}

func (s budgetLines) archive(l *line) string {
	return s.do(billing.KindArchiveBudget, &billing.ArchiveBudget{
		Env: s.environment(l), Key: l.word(0),
	})
}

// bind binds an API key to a budget: bind TEXT [budget=].
func (s budgetLines) bind(l *line) string {
	return s.do(billing.KindBindKey, &billing.BindKey{
		Env: s.environment(l), ID: ID(l.word(0)), Budget: l.value("budget", ""),
	})
}

// boundTo is the node that the API key of a line's key= is bound to.
func (s *scenario) boundTo(l *line) uint32 {
	text := l.value("key", "")
	if text == "" {
		return 0
	}
	p, _ := s.m.Authenticate(secret(text))
	return p.Budget
}

// budgets prints a tree: budgets [below=KEY].
func (s budgetLines) budgets(l *printer) {
	s.below(l, s.environment(l.line), l.value("below", ""), "")
}

func (s budgetLines) below(l *printer, env uint32, parent, indent string) {
	for after := ""; ; {
		views, next, _ := s.m.Budgets(env, parent, after, 2, 0)
		for i := range views {
			v := &views[i]
			fmt.Fprintf(l, "%s%s %s", indent, v.Key, v.Status)
			l.WriteString(when(v.Customer != "", " of %s", v.Customer))
			if b := v.Binding; b != nil {
				fmt.Fprintf(l, ", bound by %s: %s left", b.Budget, b.Remaining)
			}
			l.WriteString("\n")
			for j := range v.Limits {
				x := &v.Limits[j]
				fmt.Fprintf(l, "%s  %s %s%s: used=%s held=%s of %s, left=%s, %s to %s\n", indent, x.Of,
					either(x.FeatureKey, "all"), x.Currency, x.Used, x.Held, x.Limit, x.Remaining,
					show(x.Start), show(x.End))
			}
			s.below(l, env, v.Key, indent+"  ")
		}
		if after = next; after == "" {
			return
		}
	}
}

// windows prints the closed windows of a budget's limits: windows KEY.
func (s budgetLines) windows(l *printer) {
	limits, _ := s.m.BudgetWindows(s.environment(l.line), l.word(0), 0)
	for i, windows := range limits {
		for _, w := range windows {
			fmt.Fprintf(l, "%d: used=%s of %s, %s to %s\n", i+1, w.Used, w.Limit, show(w.Start),
				show(w.End))
		}
	}
}

// refusedText is the limit that refuses: "team, price, day, 40 of 40 USD, held 0".
func refusedText(r *billing.Refusal) string {
	if r.Of == 0 {
		return r.Budget
	}
	text := fmt.Sprintf("%s, %s", r.Budget, r.Of)
	text += when(r.Feature != "", " of %s", r.Feature)
	text += fmt.Sprintf(", %s, %s of %s", r.Window, r.Used, r.Limit)
	text += when(r.Currency != "", " %s", r.Currency)
	return text + ", held " + r.Held.String()
}
