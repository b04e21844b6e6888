// Package mails shows mails that a folder keeps instead of sending them, for local development: a
// page without any sign-in, on the operations listener of a node configured to keep them. See
// DESIGN.md.
package mails

import (
	"embed"
	"log/slog"
	"time"

	"tollgate/server"
	"tollgate/server/console/page"
	"tollgate/server/provider/mail"
)

// Root is the page's path.
const Root = "/mails"

// shownMails is how many mails the page shows, the newest.
const shownMails = 50

//go:embed template
var templates embed.FS

// shown is a mail as the page shows it: its text, and the source of its HTML. Neither is ever
// interpreted.
type shown struct{ ID, To, Subject, Text, HTML, At string }

// Routes are the page and its assets.
func Routes(folder *mail.Folder, log *slog.Logger) ([]server.Route, error) {
	site, err := page.New(page.Config{
		Brand: "Local mails", Root: Root, Templates: templates, Log: log,
	})
	if err != nil {
		return nil, err
	}
	show := server.Route{
		Method: "GET", Path: Root, Operation: "showMails", Summary: "Mails that were not sent",
		Access: server.AccessOpen, Handle: func(x *server.Exchange) { list(site, folder, log, x) },
	}
	return append(site.Assets(), show), nil
}

func list(site *page.Site, folder *mail.Folder, log *slog.Logger, x *server.Exchange) {
	kept, err := folder.Newest(shownMails)
	if err != nil {
		log.Error("the mails cannot be shown", "error", err)
		x.Refuse(server.FaultInternal)
		return
	}
	all := make([]shown, 0, len(kept))
	for i := range kept {
		k := &kept[i]
		all = append(all, shown{
			k.ID, k.To, k.Subject, k.Text, k.HTML, k.At.UTC().Format(time.RFC3339),
		})
	}
	site.Show(x, 200, &page.View{
		Page: "mails", Title: "Mails that were not sent", Data: all,
		Lead: "For local development: this deployment keeps its mails here instead of sending them. " +
			"They were not sent.",
	})
}
