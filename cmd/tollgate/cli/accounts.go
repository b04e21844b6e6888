package cli

import (
	"io"

	api "tollgate/sdk/go"
)

type accountsCommand struct {
	List   call[accountsList, accounts] `cmd:"" call:"GET /accounts" help:"List accounts."`
	Create call[accountsCreate, none]   `cmd:"" call:"POST /accounts" says:"Created account {Name}." help:"Create an account with a live and a sandbox environment."`
}

type accountsList struct {
	AdminFlags  `embed:""`
	OutputFlags `embed:""`
}

type accountsCreate struct {
	AdminFlags  `embed:""`
	OutputFlags `embed:""`
	Name        string `arg:"" json:"name" help:"1–64 of a-z, 0-9 and -."`
}

type accounts []api.Account

func (l accounts) print(out io.Writer) error {
	t := NewTable(out, "NAME", "ID", "CREATED")
	for _, a := range l {
		t.Row(a.Name, a.ID, moment(a.CreatedAt))
	}
	return t.End()
}
