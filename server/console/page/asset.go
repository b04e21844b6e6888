package page

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"path"

	"tollgate/server"
)

//go:embed template asset
var own embed.FS

// asset is one file of the layout, at an address that changes with its content.
type asset struct {
	url, media string
	body       []byte
}

var assetMedia = map[string]string{
	".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".svg": "image/svg+xml",
}

func (s *Site) readAssets() error {
	s.assets = map[string]*asset{}
	files, err := own.ReadDir("asset")
	if err != nil {
		return fmt.Errorf("page: assets: %w", err)
	}
	for _, file := range files {
		name := file.Name()
		body, err := own.ReadFile("asset/" + name)
		if err != nil {
			return fmt.Errorf("page: %s: %w", name, err)
		}
		sum := sha256.Sum256(body)
		s.assets[name] = &asset{
			url:   s.config.Root + "/asset/" + hex.EncodeToString(sum[:6]) + "/" + name,
			media: assetMedia[path.Ext(name)], body: body,
		}
	}
	return nil
}

// Assets are the rows that serve the layout's files. They may be kept forever: another content has
// another address.
func (s *Site) Assets() []server.Route {
	rows := make([]server.Route, 0, len(s.assets))
	for name, kept := range s.assets {
		rows = append(rows, server.Route{
			Method: "GET", Path: kept.url, Operation: "asset " + name, Access: server.AccessOpen,
			Handle: func(x *server.Exchange) {
				s.Guard(x)
				x.Caching("public, max-age=31536000, immutable")
				x.Bare(200, kept.media, kept.body)
			},
		})
	}
	return rows
}

// Icon is the row at which browsers look for an icon that a page does not name, such as those of
// signing in.
func (s *Site) Icon() server.Route {
	kept := s.assets["icon.svg"]
	return server.Route{
		Method: "GET", Path: IconPath, Operation: "icon", Access: server.AccessOpen,
		Handle: func(x *server.Exchange) {
			s.Guard(x)
			x.Caching("public, max-age=86400")
			x.Bare(200, kept.media, kept.body)
		},
	}
}

// IconPath is where browsers look for an icon by default.
const IconPath = "/favicon.ico"
