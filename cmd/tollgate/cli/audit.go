package cli

import (
	"context"
	"io"
	"net/url"
	"sort"
	"strconv"
	"strings"
)

// AuditCommand lists what was changed through the admin API.
type AuditCommand struct {
	AdminFlags  `embed:""`
	OutputFlags `embed:""`
	Limit       int    `default:"50" help:"How many changes, at most 1,000."`
	Before      string `help:"Go on where an earlier page ended, as its last line says."`
}

// Run lists admin changes.
func (c *AuditCommand) Run(ctx context.Context, out io.Writer) error {
	var page struct {
		Changes []struct {
			Number      uint64            `json:"number"`
			At          string            `json:"at"`
			Actor       string            `json:"actor"`
			Action      string            `json:"action"`
			Account     string            `json:"account"`
			Environment string            `json:"environment"`
			Workspace   string            `json:"workspace"`
			Subject     string            `json:"subject"`
			Before      map[string]string `json:"before"`
			After       map[string]string `json:"after"`
		} `json:"changes"`
		NextCursor string `json:"nextCursor"`
	}
	path := "/api/v1/admin/audit?limit=" + strconv.Itoa(c.Limit)
	if c.Before != "" {
		path += "&cursor=" + url.QueryEscape(c.Before)
	}
	data, err := c.read(ctx, path, &page)
	return c.answer(out, data, err, func() error {
		t := NewTable(out, "NUMBER", "AT", "WHO", "WHAT", "WHERE", "SUBJECT", "CHANGE")
		for _, x := range page.Changes {
			place := either(strings.TrimSuffix(x.Account+"/"+x.Environment, "/"), x.Workspace)
			t.Row(strconv.FormatUint(x.Number, 10), instant(x.At), x.Actor, x.Action,
				either(place, "–"), either(x.Subject, "–"), changes(x.Before, x.After))
		}
		if err := t.End(); err != nil || page.NextCursor == "" {
			return err
		}
		return Say(out, "Older ones: tollgate audit --before %s", page.NextCursor)
	})
}

// changes says what each value was and what it became.
func changes(before, after map[string]string) string {
	names := map[string]bool{}
	for name := range before {
		names[name] = true
	}
	for name := range after {
		names[name] = true
	}
	all := make([]string, 0, len(names))
	for name := range names {
		text := name + " " + before[name] + " → " + after[name]
		all = append(all, strings.Join(strings.Fields(text), " "))
	}
	sort.Strings(all)
	return strings.Join(all, ", ")
}
