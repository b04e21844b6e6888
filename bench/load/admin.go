package load

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
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
	// maxAdminBody bounds an answer that is read.
	maxAdminBody = 8 << 20
)

// call makes one request of the first node's admin API.
func (r *Run) call(ctx context.Context, method, path, body string) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	url := "http://" + r.Admin.Nodes[0] + "/api/v1/admin/accounts/" + r.Admin.Account +
		"/environments/sandbox" + path
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, nil, fmt.Errorf("admin: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+r.Admin.Key)
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, nil, fmt.Errorf("admin: %w", err)
	}
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAdminBody))
	return response.StatusCode, answer, errors.Join(err, response.Body.Close())
}

// clockNow is what GET …/clock says.
type clockNow struct {
	Now     time.Time `json:"now"`
	Settled bool      `json:"settled"`
}

func (r *Run) look(ctx context.Context) (now clockNow, err error) {
	status, body, err := r.call(ctx, http.MethodGet, "/clock", "")
	if err != nil {
		return now, err
	}
	var answer struct {
		Data clockNow `json:"data"`
	}
	if err = json.Unmarshal(body, &answer); err != nil || status != 200 {
		return now, errors.Join(fmt.Errorf("clock: %d %.300s", status, body), err)
	}
	return answer.Data, nil
}

// clock is the sandbox's time.
func (r *Run) clock(ctx context.Context) (time.Time, error) {
	now, err := r.look(ctx)
	return now.Now, err
}

// advance moves the sandbox's clock, and waits until all that is due by then has happened.
func (r *Run) advance(ctx context.Context, to time.Time) error {
	status, body, err := r.call(ctx, http.MethodPost, "/clock",
		`{"advanceTo":"`+to.UTC().Format(time.RFC3339)+`"}`)
	if err != nil {
		return err
	}
	switch {
	case status == 200:
		return nil
	case status != 503 || !bytes.Contains(body, []byte("clock_settling")):
		return fmt.Errorf("advance the clock: %d %.300s", status, body)
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
	// longestSpan is about how long nodes remember an entry that took long.
	longestSpan   = 10 * time.Second
	longestMetric = `tollgate_cluster_longest_entry_seconds{group="billing"} `
)

// watch asks the nodes again and again for the longest entry, and notes it under the phase.
func (c *closing) watch(ctx context.Context) {
	for phase := range c.longest {
		c.longest[phase] = map[string]time.Duration{}
	}
	for ctx.Err() == nil {
		phase := c.phase.Load()
		for _, node := range c.Admin.Nodes {
			d, err := longestEntry(ctx, node)
			if err != nil && ctx.Err() == nil {
				c.note(err.Error())
			}
			c.longest[phase][node] = max(c.longest[phase][node], d)
		}
		pause(ctx, 200*time.Millisecond)
	}
}

// longestEntry reads a node's metric.
func longestEntry(ctx context.Context, node string) (time.Duration, error) {
	longest, err := metric(ctx, node, longestMetric)
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
func metrics(ctx context.Context, node string, names ...string) (_ map[string]float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+node+"/metrics", nil)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	values := map[string]float64{}
	lines := bufio.NewScanner(io.LimitReader(response.Body, maxAdminBody))
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
func (a Admin) Leader(ctx context.Context) (string, error) {
	var all []error
	for _, node := range a.Nodes {
		name, _, err := a.leader(ctx, node)
		if err == nil && name != "" {
			return name, nil
		}
		all = append(all, err)
	}
	return "", errors.Join(append(all, errors.New("no node knows who leads"))...)
}

// term asks the nodes, until one answers, for the term of the billing group.
func (a Admin) term(ctx context.Context) (uint64, error) {
	var all []error
	for _, node := range a.Nodes {
		name, term, err := a.leader(ctx, node)
		if err == nil && name != "" {
			return term, nil
		}
		all = append(all, err)
	}
	return 0, errors.Join(append(all, errors.New("no node knows who leads"))...)
}

// leader is who leads the billing group, and since which term, as a node says.
func (a Admin) leader(ctx context.Context, node string) (name string, term uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		"http://"+node+"/api/v1/admin/cluster", nil)
	if err != nil {
		return "", 0, fmt.Errorf("cluster status: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+a.Key)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", 0, fmt.Errorf("cluster status: %w", err)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return "", 0, fmt.Errorf("cluster status: %w", err)
	}
	var answer struct {
		Data struct {
			Groups []struct {
				Leader string `json:"leader"`
				Term   uint64 `json:"term"`
			} `json:"groups"`
		} `json:"data"`
	}
	if err = json.Unmarshal(body, &answer); err != nil || len(answer.Data.Groups) == 0 {
		return "", 0, errors.Join(fmt.Errorf("cluster status: %d %.200s", response.StatusCode, body), err)
	}
	return answer.Data.Groups[0].Leader, answer.Data.Groups[0].Term, nil
}
