package cli

import (
	"cmp"
	"context"
	"encoding/base64"
	"io"
	"os"

	api "tollgate/sdk/go"
)

type portalCommand struct {
	Link   call[portalLinkFlags, portalLink] `cmd:"" call:"POST customers/{Customer}/portal-links" notes:"Whoever has the link sees the pages of {Customer}. It is not stored, and not shown again." help:"Create a link that opens a customer's own pages, and print it."`
	Revoke call[customerFlags, none]         `cmd:"" call:"DELETE customers/{Customer}/portal-links" says:"All links of {Customer} have ended." help:"Revoke all links that open a customer's pages."`
	Show   call[environmentOutput, look]     `cmd:"" call:"GET portal" help:"Show the colour and the logo of the customers' pages."`
	Set    portalSetCommand                  `cmd:"" help:"Set the colour and the logo of the customers' pages; anything left out stays."`
}

type portalLinkFlags struct {
	customerFlags `embed:""`
	Minutes       int `json:"expiresInMinutes" default:"60" help:"How long it is valid, 5 minutes to 7 days (10,080)."`
}

// portalLink opens a customer's pages.
type portalLink struct{ api.PortalLink }

func (l *portalLink) secret() string { return l.URL }

type portalSetCommand struct {
	inEnvironment `embed:""`
	Colour        string  `placeholder:"#17645a" help:"Colour of links, where they are legible in it."`
	Logo          picture `placeholder:"FILE" help:"A PNG, JPEG or WebP file of 32 KiB at most."`
	Standard      bool    `help:"Start from the standard look, so that anything left out is removed."`
}

// Run sets what is named: the admin API replaces the whole look, so the present one is read before.
func (c *portalSetCommand) Run(ctx context.Context, out io.Writer) error {
	var now api.Portal
	if !c.Standard {
		if _, err := c.read(ctx, c.path()+"/portal", &now); err != nil {
			return err
		}
	}
	now.AccentColour = cmp.Or(c.Colour, now.AccentColour)
	now.Logo = cmp.Or(string(c.Logo), now.Logo)
	if _, err := c.send(ctx, "PUT", c.path()+"/portal", now, nil); err != nil {
		return err
	}
	return Say(out, "The customers' pages have this look.")
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
