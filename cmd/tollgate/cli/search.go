package cli

import (
	"io"

	api "tollgate/sdk/go"
)

type searchFlags struct {
	environmentOutput `embed:""`
	Text              string `arg:"" query:"q" help:"What an id, a name, an e-mail, an invoice's number, an event's key or a key's label begins with."`
	Limit             int    `query:"limit" default:"20" help:"Maximum number of rows, up to 50."`
}

type searched struct{ api.SearchAnswer }

func (s *searched) print(out io.Writer) error {
	if len(s.Results) == 0 {
		if err := Say(out, "Nothing found."); err != nil {
			return err
		}
	} else {
		t := NewTable(out, "KIND", "TITLE", "DETAIL", "CUSTOMER", "ID")
		for i := range s.Results {
			r := &s.Results[i]
			t.Row(r.Kind, r.Title, r.Detail, r.CustomerReferenceID, r.ID)
		}
		if err := t.End(); err != nil {
			return err
		}
	}
	if !s.Complete {
		return Say(out, "Not everything was looked at yet: repeat the command.")
	}
	return nil
}
