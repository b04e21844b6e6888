package load

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	api "tollgate/sdk/go"
)

// ProfileReport is where the processor time of a load goes.
type ProfileReport struct {
	Report
	// Parts are those of all nodes together; what a unit takes in each, in seconds.
	Parts map[string]float64
	// Profiles are those of the processes, as Go's tools read them.
	Profiles [][]byte `json:"-"`
}

// Profile puts the load on, and has each node profile itself meanwhile. Parts add up to the
// processor time that the kernel counts: a profile says only which part of it went where.
func (r *Run) Profile(ctx context.Context) (ProfileReport, error) {
	report := ProfileReport{Parts: map[string]float64{}}
	profile := r.Target.Profile
	if profile == nil {
		if len(r.Admin.Nodes) == 0 || len(r.Admin.Nodes) != len(r.Processes) {
			return report, errors.New("profile needs a cluster of `tollgate dev` on this machine")
		}
		profile = r.profileNodes
	}
	all, _, err := r.carryOut(ctx, func(ctx context.Context, _ time.Time) (err error) {
		report.Profiles, err = profile(ctx, r.Duration)
		return err
	})
	report.Report = all
	if err != nil {
		return report, err
	}
	for i, profile := range report.Profiles {
		samples, err := sampled(ctx, profile)
		if err != nil {
			return report, err
		}
		sum := 0.0
		for _, seconds := range samples {
			sum += seconds
		}
		for part, seconds := range samples {
			report.Parts[part] += seconds / sum * all.Used[i].Cores / all.UnitRate
		}
	}
	return report, nil
}

// profileNodes has each node profile itself.
func (r *Run) profileNodes(ctx context.Context, lasts time.Duration) ([][]byte, error) {
	profiles, errs := make([][]byte, len(r.Admin.Nodes)), make([]error, len(r.Admin.Nodes))
	var group sync.WaitGroup
	for i, node := range r.Admin.Nodes {
		group.Go(func() {
			answer, err := ask(ctx, node, r.Admin.Key, api.Request{
				Method: "GET", Path: fmt.Sprintf("/debug/pprof/profile?seconds=%.0f", lasts.Seconds()),
			})
			profiles[i], errs[i] = answer.Body, cmp.Or(err, answer.Err())
		})
	}
	group.Wait()
	return profiles, errors.Join(errs...)
}

// sampled is how many seconds of a profile belong to each part. Go's own tool reads it.
func sampled(ctx context.Context, profile []byte) (map[string]float64, error) {
	text, err := pprof(ctx, [][]byte{profile}, "-traces")
	if err != nil {
		return nil, err
	}
	return traces(bytes.NewReader(text))
}

// MergeProfiles merges profiles into one, for `go build -pgo`.
func MergeProfiles(ctx context.Context, profiles [][]byte) ([]byte, error) {
	return pprof(ctx, profiles, "-proto", "-output=/dev/stdout")
}

// pprof returns what `go tool pprof` prints of profiles.
func pprof(ctx context.Context, profiles [][]byte, flags ...string) (printed []byte, err error) {
	folder, err := os.MkdirTemp("", "tollgate-bench-")
	if err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	args := append([]string{"tool", "pprof"}, flags...)
	for i, profile := range profiles {
		file := filepath.Join(folder, strconv.Itoa(i))
		if err = os.WriteFile(file, profile, 0o600); err != nil {
			return nil, fmt.Errorf("profile: %w", err)
		}
		args = append(args, file)
	}
	command := exec.CommandContext(ctx, "go", args...)
	var problems bytes.Buffer
	command.Stderr = &problems
	if printed, err = command.Output(); err != nil {
		return nil, fmt.Errorf("go tool pprof: %w\n%s", err, &problems)
	}
	return printed, nil
}

// traces reads what `go tool pprof -traces` prints: samples between lines of dashes, each a
// duration and a stack, from the innermost function to the outermost.
func traces(text io.Reader) (map[string]float64, error) {
	samples := map[string]float64{}
	var spent time.Duration
	var stack []string
	note := func() {
		if len(stack) > 0 {
			samples[partOf(stack)] += spent.Seconds()
		}
		stack, spent = nil, 0
	}
	lines := bufio.NewScanner(text)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		switch {
		case strings.HasPrefix(lines.Text(), "-----"):
			note()
		case len(fields) > 1 && len(stack) == 0:
			took, err := time.ParseDuration(fields[0])
			if err != nil {
				continue // a line of the head
			}
			spent, stack = took, []string{fields[1]}
		case len(fields) > 0 && len(stack) > 0:
			stack = append(stack, fields[0])
		}
	}
	note()
	if len(samples) == 0 {
		return nil, errors.New("profile: no samples")
	}
	return samples, lines.Err()
}

// PrintParts writes the parts of several loads as a table of Markdown, in µs for a unit.
func PrintParts(reports []ProfileReport, out io.Writer) error {
	var text bytes.Buffer
	column := func(name string, of func(r *ProfileReport) string) {
		text.WriteString("| " + name)
		for i := range reports {
			text.WriteString(" | " + of(&reports[i]))
		}
		text.WriteString(" |\n")
	}
	micros := func(seconds float64) string { return fmt.Sprintf("%.2f", 1e6*seconds) }
	column("", func(r *ProfileReport) string {
		return fmt.Sprintf("%s, %s, %d connections", r.System, r.Scenario, r.Connections)
	})
	text.WriteString("|---" + strings.Repeat("|---", len(reports)) + "|\n")
	generator := func(r *ProfileReport) float64 { return r.GeneratorCores / r.UnitRate }
	column("total", func(r *ProfileReport) string { return micros(r.Cost() + generator(r)) })
	column("generator", func(r *ProfileReport) string { return micros(generator(r)) })
	for _, part := range Parts {
		column(part, func(r *ProfileReport) string { return micros(r.Parts[part]) })
	}
	column("a second", func(r *ProfileReport) string {
		return fmt.Sprintf("%.0f%s", r.UnitRate, marked(r.Machine, ", DISTURBED: "+r.Machine.Disturbed()))
	})
	if _, err := out.Write(text.Bytes()); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}
