package cli

import (
	"encoding/base64"
	"io"
	"os"

	api "tollgate/sdk/go"
)

type portalCommand struct {
	Link   call[portalLinkFlags, portalLink] `cmd:"" call:"POST customers/{Customer}/portal-links" notes:"Whoever has the link sees the pages of {Customer}. It is not stored, and not shown again." help:"Make a link that opens a customer's own pages, and print it."`
	Revoke call[customerFlags, none]         `cmd:"" call:"DELETE customers/{Customer}/portal-links" says:"All links of {Customer} have ended." help:"End all links that open a customer's pages."`
	Show   call[environmentOutput, look]     `cmd:"" call:"GET portal" help:"Show colour and logo of the customers' pages."`
	Set    call[portalSetFlags, none]        `cmd:"" call:"PUT portal" says:"The customers' pages have this look." help:"Set colour and logo of the customers' pages; what is left out is the standard."`
}

type portalLinkFlags struct {
	customerFlags `embed:""`
	Minutes       int `json:"expiresInMinutes" default:"60" help:"How long it is valid, 5 minutes to 7 days (10,080)."`
}

// portalLink opens a customer's pages.
type portalLink struct{ api.PortalLink }

func (l *portalLink) secret() string { return l.URL }

type portalSetFlags struct {
	inEnvironment `embed:""`
	Colour        string  `json:"accentColour,omitempty" placeholder:"#17645a" help:"Colour of links, where they are legible in it."`
	Logo          picture `json:"logo,omitempty" placeholder:"FILE" help:"A PNG, JPEG or WebP file of 32 KiB at most."`
}

// picture is a file in base64.
type picture string

// UnmarshalText reads the file that a text names.
func (p *picture) UnmarshalText(name []byte) error {
	file, err := os.ReadFile(string(name))
	*p = picture(base64.StdEncoding.EncodeToString(file))
	return err
}

type look struct{ api.Portal }

func (l *look) print(out io.Writer) error {
	t := NewTable(out)
	t.Row("Colour", either(l.AccentColour, "standard"))
	logo := "none"
	if l.Logo != "" {
		logo = "set"
	}
	t.Row("Logo", logo)
	return t.End()
}
