package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Pages measures checks and single events while people look at live pages of operators, and without
// them, in turns on one cluster.
type Pages struct {
	// Checks and Events are what is measured; their Target is the cluster, whose admin key signs in.
	Checks, Events Config
	// Browsers is how many people look, shared out among the nodes: half of them at the cluster's
	// load, which their script asks for every two seconds, half at a customer's usage, every five.
	Browsers int
	// Customer is an ExternalID of the account that is measured, whose usage is looked at.
	Customer string
	// Rounds is how often it is measured with them, and once more without.
	Rounds int
	// Idle is how long the nodes' processor time is counted while nothing else is asked of them: once
	// with the people, between two without.
	Idle time.Duration
	// Progress is told what happens.
	Progress Progress `json:"-"`
}

// PagesReport is what came of Pages.
type PagesReport struct {
	Browsers int
	Rounds   []PagesRound
	// Checks and Events are the medians of the rounds' rates with browsers by those without; P99 is
	// the same of the p99 of single events.
	Checks, Events, P99 float64
	// Cost is the processor time that the nodes spend for the people, as a share of all cores: of this
	// machine, which has to be theirs. Two rates that a machine measures differ by more than it.
	Cost float64
}

// PagesRound is one round: what is without is the mean of the measurements before and after.
type PagesRound struct {
	Without, Beside PagesSide
	// Seen is how often browsers were shown what is new.
	Seen int64
}

// PagesSide is what is measured at a time.
type PagesSide struct {
	Checks, Events float64
	P99            time.Duration
}

// How often the script of a page asks, and how many browsers there may be.
const (
	clusterEvery = 2 * time.Second
	usageEvery   = 5 * time.Second
	maxBrowsers  = 1000
)

// Measure carries it out.
func (p *Pages) Measure(ctx context.Context) (report PagesReport, err error) {
	if p.Browsers < 1 || p.Browsers > maxBrowsers || p.Rounds < 1 || p.Idle <= 0 ||
		len(p.Checks.Admin.Nodes) == 0 {
		return report, fmt.Errorf("%d browsers, %d rounds: want 1 to %d browsers of a cluster",
			p.Browsers, p.Rounds, maxBrowsers)
	}
	report.Browsers = p.Browsers
	// They sign in once: a node takes ten tries a minute from an address.
	viewers := make([]*viewer, p.Browsers)
	for i := range viewers {
		node := p.Checks.Admin.Nodes[i%len(p.Checks.Admin.Nodes)]
		if viewers[i], err = openViewer(ctx, node, p.Checks.Admin.Key); err != nil {
			return report, err
		}
		defer viewers[i].http.CloseIdleConnections()
	}
	if report.Cost, err = p.cost(ctx, viewers); err != nil {
		return report, err
	}
	before, err := sideOf(ctx, p.Checks, p.Events)
	if err != nil {
		return report, err
	}
	for n := range p.Rounds {
		beside, seen, err := p.beside(ctx, viewers)
		if err != nil {
			return report, err
		}
		after, err := sideOf(ctx, p.Checks, p.Events)
		if err != nil {
			return report, err
		}
		round := PagesRound{Beside: beside, Seen: seen, Without: mean(before, after)}
		report.Rounds, before = append(report.Rounds, round), after
		p.Progress.say("round %d: %+v with %d browsers, %+v without", n+1, beside, p.Browsers,
			round.Without)
	}
	report.sum()
	return report, nil
}

func mean(a, b PagesSide) PagesSide {
	return PagesSide{
		Checks: (a.Checks + b.Checks) / 2, Events: (a.Events + b.Events) / 2, P99: (a.P99 + b.P99) / 2,
	}
}

// middle is the median of what the rounds have, the mean of the middle two of an even number.
func middle[R any](rounds []R, of func(R) float64) float64 {
	all := make([]float64, 0, len(rounds))
	for _, round := range rounds {
		all = append(all, of(round))
	}
	slices.Sort(all)
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}

// sideOf measures checks and then events.
func sideOf(ctx context.Context, checks, events Config) (s PagesSide, err error) {
	for _, c := range []Config{checks, events} {
		run, err := New(c)
		if err != nil {
			return s, err
		}
		report, err := run.Do(ctx)
		if err != nil {
			return s, err
		}
		if c.Scenario == ScenarioCheck {
			s.Checks = report.UnitRate
		} else {
			s.Events, s.P99 = report.UnitRate, report.Latency["p99"]
		}
	}
	return s, nil
}

func (p *Pages) beside(ctx context.Context, viewers []*viewer,
) (s PagesSide, seen int64, err error) {
	seen, err = p.look(ctx, viewers, func() error {
		s, err = sideOf(ctx, p.Checks, p.Events)
		return err
	})
	return s, seen, err
}

// cost is what the nodes spend for the people, as a share of all cores.
func (p *Pages) cost(ctx context.Context, viewers []*viewer) (float64, error) {
	var spent [3]float64
	for i := range spent {
		during := func() (err error) {
			spent[i], err = p.spend(ctx)
			return err
		}
		err := error(nil)
		if i == 1 {
			_, err = p.look(ctx, viewers, during)
		} else {
			err = during()
		}
		if err != nil {
			return 0, err
		}
	}
	return (spent[1] - (spent[0]+spent[2])/2) / p.Idle.Seconds() / float64(runtime.NumCPU()), nil
}

// spend is the processor time of all nodes while Idle goes by, in seconds.
func (p *Pages) spend(ctx context.Context) (seconds float64, err error) {
	const name = "process_cpu_seconds_total "
	for _, sign := range []float64{-1, 1} {
		for _, node := range p.Checks.Admin.Nodes {
			n, err := metric(ctx, node, name)
			if err != nil {
				return 0, err
			}
			seconds += sign * n
		}
		if sign < 0 {
			select {
			case <-ctx.Done():
				return 0, ctx.Err()
			case <-time.After(p.Idle):
			}
		}
	}
	return seconds, nil
}

// look works while all browsers look; one that is not shown its page spoils the figure.
func (p *Pages) look(ctx context.Context, viewers []*viewer, work func() error,
) (seen int64, err error) {
	looking, stop := context.WithCancel(ctx)
	defer stop()
	var all sync.WaitGroup
	var shown atomic.Int64
	failed := make(chan error, p.Browsers)
	for i, b := range viewers {
		path, every := "/console/cluster", clusterEvery
		if i/len(p.Checks.Admin.Nodes)%2 == 1 {
			path, every = "/console/accounts/"+url.PathEscape(p.Checks.Admin.Account)+
				"/sandbox/customers/"+url.PathEscape(p.Customer), usageEvery
		}
		all.Go(func() {
			if err := b.watch(looking, path, every, &shown); err != nil && looking.Err() == nil {
				failed <- err
			}
		})
	}
	err = work()
	stop()
	all.Wait()
	close(failed)
	for f := range failed {
		err = errors.Join(err, refuse("a browser was not shown its page: %s", f))
	}
	return shown.Load(), err
}

// viewer is a browser that has signed in.
type viewer struct {
	base string
	http *http.Client
}

// openViewer signs a browser in by the admin key.
func openViewer(ctx context.Context, node, key string) (*viewer, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, fmt.Errorf("a browser: %w", err)
	}
	b := &viewer{"http://" + node, &http.Client{
		Jar: jar, Timeout: adminTimeout, Transport: &http.Transport{},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	form := url.Values{"key": {key}}
	status, err := b.ask(ctx, "POST", "/console/sign-in", strings.NewReader(form.Encode()))
	if err == nil && status != http.StatusSeeOther {
		err = fmt.Errorf("%s: sign in to the operators' pages: %d", node, status)
	}
	return b, err
}

func (b *viewer) ask(ctx context.Context, method, path string, body io.Reader) (int, error) {
	request, err := http.NewRequestWithContext(ctx, method, b.base+path, body)
	if err != nil {
		return 0, fmt.Errorf("a browser: %w", err)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	answer, err := b.http.Do(request)
	if err != nil {
		return 0, fmt.Errorf("a browser: %w", err)
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode, errors.Join(err, answer.Body.Close())
}

// watch opens a page, and asks for what is new on it as its script does, until ctx ends.
func (b *viewer) watch(
	ctx context.Context, path string, every time.Duration, shown *atomic.Int64,
) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for at := path; ; at = path + "/live" {
		status, err := b.ask(ctx, "GET", at, nil)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("%s: %d", at, status)
		}
		if err != nil {
			return err
		}
		shown.Add(1)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// sum fills in the medians of the rounds' ratios.
func (r *PagesReport) sum() {
	ratio := func(of func(PagesSide) float64) float64 {
		return middle(r.Rounds, func(o PagesRound) float64 { return of(o.Beside) / of(o.Without) })
	}
	r.Checks = ratio(func(s PagesSide) float64 { return s.Checks })
	r.Events = ratio(func(s PagesSide) float64 { return s.Events })
	r.P99 = ratio(func(s PagesSide) float64 { return float64(s.P99) })
}

// goalBrowsers is how many people look at a time, of whom it is asked what they cost.
const goalBrowsers = 20

// livePages is what people who look at live pages cost.
func livePages(f *Figures) (string, Verdict) {
	if f.Pages == nil {
		return "", VerdictUnknown
	}
	p := f.Pages
	return fmt.Sprintf("%.2f %% (%d browsers); checks %.3f, events %.3f, p99 %.2f × (%d rounds)",
			p.Cost*100, p.Browsers, p.Checks, p.Events, p.P99, len(p.Rounds)),
		sized(p.Cost < 0.01, p.Browsers >= goalBrowsers)
}
