package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// ScenarioPairs reserves a unit and settles it, over and over. Each customer has a budget of its
// own that is never reached, and each connection one customer: with one customer all of them share
// a budget.
const ScenarioPairs Scenario = "reserve-settle"

// budgetLimit is more units than a run settles.
const budgetLimit = 1_000_000_000_000

// createBudget makes the own budget of a customer.
func (r *Run) createBudget(c *connection, customer string) error {
	path := "/api/v1/client/budgets/" + customer
	status, answer, err := c.do(r.request("PUT", path, fmt.Appendf(nil,
		`{"name":%q,"customerReferenceId":%q,"limits":[{"of":"units","featureKey":%q,"limit":%d,`+
			`"window":"month"}]}`, customer, customer, r.Feature, budgetLimit)))
	if err == nil && status >= 300 {
		err = fmt.Errorf("PUT %s: %d %.300s", path, status, answer)
	}
	return err
}

// reserveTemplate reserves a unit for a customer.
func (r *Run) reserveTemplate(worker int, customer uint32) *template {
	open := fmt.Sprintf(`{"reservationKey":"%s-%d-`, r.name, worker)
	end := fmt.Sprintf(`","customerReferenceId":%q,"featureKey":%q,"usageUnits":1}`,
		r.customer(int(customer)), r.Feature)
	t := &template{bytes: r.head("POST", "/api/v1/client/reservations",
		len(open)+keyDigits+len(end))}
	t.bytes = append(t.bytes, open...)
	t.keys = []int{len(t.bytes)}
	t.bytes = append(append(t.bytes, make([]byte, keyDigits)...), end...)
	return t
}

// idLength is the length of a reservation's id.
const idLength = 36

// settleTemplate settles that unit, and returns where the reservation's id stands.
func (r *Run) settleTemplate() (request []byte, at int) {
	const path, body = "/api/v1/client/reservations/", `{"usageUnits":1}`
	request = r.request("POST", path+strings.Repeat("0", idLength)+"/settle", []byte(body))
	return request, len("POST " + path)
}

var idField = []byte(`"id":"`)

// pairs returns what reserves and settles a unit.
func (w *worker) pairs(number int) func() (uint64, error) {
	customer := uint32(number % w.Run.Customers)
	w.customers = []uint32{customer}
	reserve := w.reserveTemplate(number, customer)
	settle, at := w.settleTemplate()
	next := uint64(0)
	return func() (uint64, error) {
		reserve.setKey(0, next)
		next++
		status, body, err := w.do(reserve.bytes)
		if err != nil {
			return 0, err // what is held and not settled counts nowhere
		}
		_, id, found := bytes.Cut(body, idField)
		if status != 201 || !found || len(id) < idLength {
			w.refused.Add(1)
			return 0, fmt.Errorf("reservation: %d %.200s", status, body)
		}
		copy(settle[at:], id[:idLength])
		status, body, err = w.do(settle)
		switch {
		case err != nil:
			w.fateUnknown()
			return 0, err
		case status == 503 && bytes.Contains(body, unknownCode):
			w.fateUnknown()
			return 0, errors.New("settlement: 503 outcome unknown")
		case status != 200:
			w.refused.Add(1)
			return 0, fmt.Errorf("settlement: %d %.200s", status, body)
		}
		w.acknowledged[customer].Add(1)
		return 1, nil
	}
}

// Pairs measures reservations with their settlements, by many clients on one budget and on
// separate ones.
type Pairs struct {
	// Config is of ScenarioPairs; Connections and Customers are set for each measurement.
	Config Config
	// Clients are how many there are at a time, ascending.
	Clients []int
	// Progress is told what happens.
	Progress Progress `json:"-"`
}

// PairsReport is what came of Pairs.
type PairsReport struct{ Sides []PairsSide }

// PairsSide is one measurement. Latency is of a pair: of both requests together.
type PairsSide struct {
	Clients, Budgets int
	Rate             float64
	P50, P99         time.Duration
	// Cost is the processor time of the system for a pair, in seconds.
	Cost float64
}

// Measure carries it out.
func (p *Pairs) Measure(ctx context.Context) (report PairsReport, err error) {
	for _, clients := range p.Clients {
		for _, budgets := range slices.Compact([]int{1, clients}) {
			c := p.Config
			c.Connections, c.Customers = clients, budgets
			run, err := New(c)
			if err != nil {
				return report, err
			}
			r, err := run.Do(ctx)
			if err != nil {
				return report, fmt.Errorf("%d clients on %d budgets: %w", clients, budgets, err)
			}
			side := PairsSide{
				Clients: clients, Budgets: budgets, Rate: r.UnitRate, P50: r.Latency["p50"],
				P99: r.Latency["p99"], Cost: r.Cost(),
			}
			p.Progress.say("%s", side)
			report.Sides = append(report.Sides, side)
		}
	}
	return report, nil
}

// String says what was measured.
func (s PairsSide) String() string {
	return fmt.Sprintf("%d clients on %d: %.0f/s, p50 %s, p99 %s, %.0f µs", s.Clients, s.Budgets,
		s.Rate, s.P50.Round(100*time.Microsecond), s.P99.Round(100*time.Microsecond), 1e6*s.Cost)
}

// Print writes a line for each measurement.
func (r PairsReport) Print(out io.Writer) error {
	for _, s := range r.Sides {
		if err := printf(out, "%s\n", s); err != nil {
			return err
		}
	}
	return nil
}

// What the goal of pairs is about.
const (
	goalPairs        = 10_000
	goalPairsClients = 200
	goalPairsP99     = 50 * time.Millisecond
)

// pairsOn is a row of those on one budget, or on separate ones.
func pairsOn(one bool) func(*Figures) (string, Verdict) {
	return func(f *Figures) (string, Verdict) {
		var all []string
		holds, reached := false, false
		if f.Pairs == nil {
			return "", VerdictUnknown
		}
		for _, s := range f.Pairs.Sides {
			if one != (s.Budgets == 1) {
				continue
			}
			all = append(all, s.String())
			if s.Clients >= goalPairsClients {
				reached = true
				holds = s.Rate >= goalPairs && s.P99 <= goalPairsP99
			}
		}
		return strings.Join(all, "; "), sized(holds, reached)
	}
}
