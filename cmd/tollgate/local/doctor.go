package local

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"tollgate/cluster"
	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/doctor"
	api "tollgate/sdk/go"
	"tollgate/server/admin"
)

// DoctorCommand looks for what is wrong with a cluster, or with a node before it is started.
type DoctorCommand struct {
	cli.AdminFlags  `embed:""`
	cli.OutputFlags `embed:""`
	Config          string `type:"existingfile" placeholder:"FILE" help:"Look at this configuration and this machine in place of a cluster: before a node is started."`
}

// Help says what the exit code says.
func (c *DoctorCommand) Help() string {
	return "Asks every member of the cluster, at the address that one of them reports. It changes " +
		"nothing. Each thing that was looked at is ok, warn or fail; for the latter two it says what to do. " +
		"It ends with 0 when all is ok, with 6 when something warns, with 7 when something fails."
}

// ErrWarns and errFails say what doctor found; the findings are printed by then.
var (
	ErrWarns = errors.New("something needs attention")
	ErrFails = errors.New("something is wrong")
)

// Run looks, and prints what it found.
func (c *DoctorCommand) Run(ctx context.Context, out io.Writer) error {
	var report doctor.Report
	if c.Config != "" {
		report = doctor.Before(c.Config, time.Now())
	} else {
		witnesses, err := c.ask(ctx)
		if err != nil {
			return err
		}
		report = doctor.Examine(witnesses, time.Now())
	}
	data, err := json.Marshal(report)
	if err != nil {
		return fmt.Errorf("print: %w", err)
	}
	if err := c.Print(out, data, func() error { return printReport(out, &report) }); err != nil {
		return err
	}
	switch report.Level {
	case doctor.LevelFail:
		return ErrFails
	case doctor.LevelWarn:
		return ErrWarns
	}
	return nil
}

func printReport(out io.Writer, r *doctor.Report) error {
	t := cli.NewTable(out)
	for _, f := range r.Findings {
		level := f.Level.String()
		if f.Level > doctor.LevelOK {
			level = strings.ToUpper(level)
		}
		t.Row(level, cmp.Or(f.Node, "cluster"), f.Check, f.Says)
		if f.Do != "" {
			t.Row("", "", "", "→ "+f.Do)
		}
	}
	if err := t.End(); err != nil {
		return err
	}
	return cli.Say(out, "%d fail, %d warn, %d ok.", r.Count(doctor.LevelFail),
		r.Count(doctor.LevelWarn), r.Count(doctor.LevelOK))
}

// ask asks the nodes that were named, and then those that they know of.
func (c *DoctorCommand) ask(ctx context.Context) ([]doctor.Witness, error) {
	addresses, key, err := c.Target()
	if err != nil {
		return nil, err
	}
	c.AdminKey = key
	wait := cli.StartProgress("asking the nodes", 0)
	defer wait.End()
	named := c.askAll(ctx, make([]doctor.Witness, len(addresses)), addresses)
	known := map[string]bool{}
	var others []doctor.Witness
	var elsewhere []string
	for _, w := range named {
		if w.Node != "" {
			known[w.Node] = true
		}
	}
	for i, w := range named {
		if w.Status == nil {
			continue
		}
		for _, m := range w.Status.Members {
			if known[m.ID] {
				continue
			}
			known[m.ID] = true
			others = append(others, doctor.Witness{Node: m.ID})
			elsewhere = append(elsewhere, like(addresses[i], m.Ops))
		}
	}
	all := append(named, c.askAll(ctx, others, elsewhere)...)
	return once(all), nil
}

// once leaves out addresses that did not answer where they are a node's that is listed by its name,
// and nodes that were asked at two addresses.
func once(all []doctor.Witness) []doctor.Witness {
	names, addresses := map[string]bool{}, map[string]bool{}
	for _, w := range all {
		if w.Node != "" {
			addresses[w.Address] = true
		}
	}
	return slices.DeleteFunc(all, func(w doctor.Witness) bool {
		if w.Node == "" {
			return addresses[w.Address]
		}
		again := names[w.Node]
		names[w.Node] = true
		return again
	})
}

// like is an address with the scheme of another: the admin key is never sent in plaintext to a node
// that is only known from an answer over TLS.
func like(address, ops string) string {
	if ops == "" {
		return ""
	}
	if u, err := url.Parse(address); err == nil && u.Scheme == "https" {
		return "https://" + ops
	}
	return ops
}

func (c *DoctorCommand) askAll(
	ctx context.Context, witnesses []doctor.Witness, addresses []string,
) []doctor.Witness {
	var wg sync.WaitGroup
	for i := range witnesses {
		witnesses[i].Address = addresses[i]
		wg.Go(func() { c.askOne(ctx, &witnesses[i]) })
	}
	wg.Wait()
	return witnesses
}

// doctorPatience bounds one question to one node, which measures its disk meanwhile.
const doctorPatience = 10 * time.Second

// askOne asks a node what it knows of the cluster, and how it is itself.
func (c *DoctorCommand) askOne(ctx context.Context, w *doctor.Witness) {
	if w.Address == "" {
		w.Refused = errors.New("the cluster does not know its operations listener")
		w.Remedy = "name it with --ops; and tollgate cluster join " + w.Node + " … --member-ops …"
		return
	}
	node, err := cli.Connect([]string{w.Address}, c.AdminKey, c.CA)
	if err != nil {
		w.Refused, w.Remedy = err, "correct --ops, or the address that the cluster has of it"
		return
	}
	defer node.Close()
	node.AnswerTimeout = doctorPatience
	var status cluster.Status
	if w.Refused = askNode(ctx, node, "/cluster", &status); w.Refused != nil {
		w.Remedy = remedy(w.Refused)
		return
	}
	w.Node, w.Status = status.NodeID, &status
	var vitals doctor.Vitals
	if w.Refused = askNode(ctx, node, "/node", &vitals); w.Refused == nil {
		w.Vitals = &vitals
	}
}

// askNode reads what a node answers at a path, once.
func askNode(ctx context.Context, node *api.Client, path string, v any) error {
	answer, err := node.Try(ctx, api.Request{Method: "GET", Path: admin.Prefix + path})
	if err != nil {
		return err
	}
	return answer.Data(v)
}

// remedy is what to do about a node that does not answer, "" where only looking helps.
func remedy(err error) string {
	var refused *api.Error
	switch {
	case errors.As(err, &refused) && refused.Status == 401:
		return "it has another adminKeyHash, or the key is wrong: give all nodes the same hash"
	case doctor.OfCertificate(err):
		return "look at its certificate (opsTLS), and at --ca: OPERATIONS.md, Certificates"
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return "it is stopped, or its disk or network hangs: look at the machine"
	}
	return ""
}
