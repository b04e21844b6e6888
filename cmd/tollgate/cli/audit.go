package cli

import (
	"io"
	"sort"
	"strconv"
	"strings"

	api "tollgate/sdk/go"
)

// AuditCommand lists what was changed through the admin API.
type AuditCommand = call[auditFlags, auditPage]

type auditFlags struct {
	AdminFlags  `embed:""`
	OutputFlags `embed:""`
	Account     string `query:"account,omitempty" placeholder:"NAME" help:"Only changes of this account."`
	Environment string `query:"environment,omitempty" placeholder:"NAME" help:"Only of its live or its sandbox environment."`
	Customer    string `query:"customer,omitempty" placeholder:"ID" help:"Only about this customer and what is its own; with --account and --environment."`
	Actor       string `query:"actor,omitempty" placeholder:"WHO" help:"Only by this operator, as WHO names them."`
	Subject     string `query:"subject,omitempty" placeholder:"ID" help:"Only of the record with this id or name."`
	Limit       int    `query:"limit" default:"50" help:"Maximum number of rows, up to 1,000."`
	Before      string `query:"cursor,omitempty" help:"Continue where an earlier page ended; its last line has the cursor."`
}

type auditPage struct{ api.AdminChangePage }

func (p *auditPage) print(out io.Writer) error {
	t := NewTable(out, "NUMBER", "AT", "WHO", "WHAT", "WHERE", "SUBJECT", "CHANGE")
	for _, x := range p.Changes {
		place := either(strings.TrimSuffix(x.Account+"/"+x.Environment, "/"), x.Workspace)
		t.Row(strconv.FormatUint(x.Number, 10), moment(x.At), x.Actor, x.Action,
			either(place, "–"), either(x.Subject, "–"), changes(x.Before, x.After))
	}
	if err := t.End(); err != nil || p.NextCursor == "" {
		return err
	}
	return Say(out, "Older ones: the same command with --before %s", p.NextCursor)
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
