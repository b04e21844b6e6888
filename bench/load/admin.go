package load

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	api "tollgate/sdk/go"
)

// Admin says how to reach the operations listeners of a cluster.
type Admin struct {
	// Nodes are host:port of operations listeners.
	Nodes []string
	// Key is the admin key. It is in no report.
	Key string `json:"-"`
	// Account is the name of the account whose sandbox is measured.
	Account string
}

const (
	// adminTimeout bounds one request; the clock answers when what is due has happened.
	adminTimeout = 90 * time.Second
	// settlePatience bounds how long a moved clock may take to settle.
	settlePatience = 10 * time.Minute
)

func ask(ctx context.Context, node, key string, r api.Request) (api.Answer, error) {
	client, err := api.New([]string{node}, key, 1)
	if err != nil {
		return api.Answer{}, err
	}
	defer client.Close()
	client.AnswerTimeout = adminTimeout
	return client.Try(ctx, r)
}

// call makes one request of the first node's admin API.
func (r *Run) call(ctx context.Context, method, path, body string) (api.Answer, error) {
	answer, err := ask(ctx, r.Admin.Nodes[0], r.Admin.Key, api.Request{
		Method: method, Body: []byte(body),
		Path: "/api/v1/admin/accounts/" + r.Admin.Account + "/environments/sandbox" + path,
	})
	if err != nil {
		return answer, fmt.Errorf("admin: %w", err)
	}
	return answer, nil
}

func (r *Run) look(ctx context.Context) (now api.Clock, err error) {
	answer, err := r.call(ctx, "GET", "/clock", "")
	if err == nil {
		err = answer.Data(&now)
	}
	if err != nil {
		return now, fmt.Errorf("clock: %w", err)
	}
	return now, nil
}

func (r *Run) clock(ctx context.Context) (time.Time, error) {
	now, err := r.look(ctx)
	return now.Now, err
}

// advance moves the sandbox's clock, and waits until all that is due by then has happened.
func (r *Run) advance(ctx context.Context, to time.Time) error {
	answer, err := r.call(ctx, "POST", "/clock",
		`{"advanceTo":"`+to.UTC().Format(time.RFC3339)+`"}`)
	if err != nil {
		return err
	}
	var refused *api.Error
	if err = answer.Err(); !errors.As(err, &refused) || refused.Code != "clock_settling" {
		return err
	}
	for deadline := time.Now().Add(settlePatience); time.Now().Before(deadline); {
		now, err := r.look(ctx)
		if err != nil || now.Settled {
			return err
		}
		pause(ctx, 100*time.Millisecond)
	}
	return errors.New("the clock does not settle")
}

const (
	// maxSpan is about how long nodes remember an entry that took long.
	maxSpan   = 10 * time.Second
	maxMetric = `tollgate_cluster_longest_entry_seconds{group="billing"} `
)

// watch asks the nodes again and again for the longest entry, and notes it under the phase.
func (c *closing) watch(ctx context.Context) {
	for phase := range c.longest {
		c.longest[phase] = map[string]time.Duration{}
	}
	for ctx.Err() == nil {
		phase := c.phase.Load()
		for _, node := range c.Admin.Nodes {
			d, err := maxEntry(ctx, node)
			if err != nil && ctx.Err() == nil {
				c.note(err.Error())
			}
			c.longest[phase][node] = max(c.longest[phase][node], d)
		}
		pause(ctx, 200*time.Millisecond)
	}
}

// maxEntry reads a node's metric.
func maxEntry(ctx context.Context, node string) (time.Duration, error) {
	longest, err := metric(ctx, node, maxMetric)
	return seconds(longest), err
}

const syncsMetric = `tollgate_cluster_log_syncs_total{group="billing"} `

// Syncs asks every node how often it called fsync on its log since its process began.
func (a Admin) Syncs(ctx context.Context) (map[string]uint64, error) {
	syncs := map[string]uint64{}
	for _, node := range a.Nodes {
		n, err := metric(ctx, node, syncsMetric)
		if err != nil {
			return nil, err
		}
		syncs["the node with operations on "+node] = uint64(n)
	}
	return syncs, nil
}

// metric reads one of a node's metrics; its name ends with a blank.
func metric(ctx context.Context, node, name string) (float64, error) {
	values, err := metrics(ctx, node, name)
	return values[name], err
}

// metrics reads some of a node's metrics, all in one request; their names end with a blank.
func metrics(ctx context.Context, node string, names ...string) (map[string]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	answer, err := ask(ctx, node, "", api.Request{Method: "GET", Path: "/metrics"})
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	values := map[string]float64{}
	lines := bufio.NewScanner(bytes.NewReader(answer.Body))
	for lines.Scan() {
		for _, name := range names {
			text, ok := strings.CutPrefix(lines.Text(), name)
			if !ok {
				continue
			}
			if values[name], err = strconv.ParseFloat(text, 64); err != nil {
				return nil, fmt.Errorf("metrics: %w", err)
			}
		}
	}
	for _, name := range names {
		if _, found := values[name]; !found {
			return nil, errors.Join(fmt.Errorf("metrics of %s: no %s", node, name), lines.Err())
		}
	}
	return values, nil
}

// Leader asks the nodes, until one answers, for the name of the one that leads the billing group.
func (a Admin) Leader(ctx context.Context) (name string, err error) {
	name, _, err = a.reign(ctx)
	return name, err
}

// reign asks the nodes, until one answers, who leads the billing group, and since which term.
func (a Admin) reign(ctx context.Context) (name string, term uint64, err error) {
	all := []error{errors.New("no node knows who leads")}
	for _, node := range a.Nodes {
		if name, term, err = a.leader(ctx, node); err == nil && name != "" {
			return name, term, nil
		}
		all = append(all, err)
	}
	return "", 0, errors.Join(all...)
}

// leader is who leads the billing group, and since which term, as a node says.
func (a Admin) leader(ctx context.Context, node string) (name string, term uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var status struct {
		Groups []struct {
			Leader string `json:"leader"`
			Term   uint64 `json:"term"`
		} `json:"groups"`
	}
	answer, err := ask(ctx, node, a.Key, api.Request{Method: "GET", Path: "/api/v1/admin/cluster"})
	if err == nil {
		err = answer.Data(&status)
	}
	if err == nil && len(status.Groups) == 0 {
		err = fmt.Errorf("%.200s", answer.Body)
	}
	if err != nil {
		return "", 0, fmt.Errorf("cluster status: %w", err)
	}
	return status.Groups[0].Leader, status.Groups[0].Term, nil
}
