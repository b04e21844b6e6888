package cli

import (
	"io"

	api "tollgate/sdk/go"
)

type sellerCommand struct {
	Show call[environmentOutput, seller] `cmd:"" call:"GET seller" help:"Show who issues the invoices."`
	Set  call[sellerFlags, none]         `cmd:"" call:"PUT seller" says:"Invoices of {Account} are issued by {Name}." help:"Set who issues the invoices; anything left out becomes empty."`
}

type sellerFlags struct {
	inEnvironment `embed:""`
	Name          string `arg:"" json:"name" help:"Name of the company."`
	Address       string `json:"address,omitempty" help:"Postal address, its lines separated by commas."`
	Email         string `json:"email,omitempty" help:"E-mail address."`
	TaxID         string `json:"taxId,omitempty" name:"tax-id" help:"Tax number."`
}

type seller struct{ api.Seller }

func (s *seller) print(out io.Writer) error {
	t := NewTable(out)
	t.Row("Name", either(s.Name, "the account's"))
	t.Row("Address", either(s.Address, "–"))
	t.Row("E-mail", either(s.Email, "–"))
	t.Row("Tax number", either(s.TaxID, "–"))
	return t.End()
}
