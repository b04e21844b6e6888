package page

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/url"
	"strings"
	"unicode/utf8"

	"tollgate/server"
)

// Policy is the Content-Security-Policy of pages: nothing but this site's own style, script and
// pictures, no code in the page itself, no frame around it.
const Policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; " +
	"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// Guard sets the headers of pages in addition to those of every answer (server.Exchange): the
// sources that they may load, and the referrer policy.
func (s *Site) Guard(x *server.Exchange) {
	x.Policy(Policy)
	h := &x.Ctx.Response.Header
	// Not no-referrer: a browser would then send "Origin: null" with our own forms.
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// FaultCrossSite answers a form that another site sent.
var FaultCrossSite = server.NewFault(403, "cross_site", "This form came from another site").With(
	"Nothing was changed. Open the page again from its own address, and send it from there.")

// FaultToken answers a form that was not written for the session that sends it.
var FaultToken = server.NewFault(403, "form_outdated",
	"This form was made for another sign-in").With("Nothing was changed. Load the page again, and " +
	"send the form once more.")

// SameSite refuses requests that a browser attributes to another site. A client that sends no such
// header cannot be a misused browser, and needs a token anyway.
func (s *Site) SameSite(x *server.Exchange) *server.Fault {
	from, one := server.SoleHeader(x.Ctx, "Sec-Fetch-Site")
	if !one || len(from) > 0 && string(from) != "same-origin" {
		return FaultCrossSite
	}
	origin, one := server.SoleHeader(x.Ctx, "Origin")
	if !one {
		return FaultCrossSite
	}
	if len(origin) == 0 || s.ownOrigin(string(origin), string(x.Ctx.Request.Header.Host())) {
		return nil
	}
	return FaultCrossSite
}

func (s *Site) ownOrigin(origin, host string) bool {
	if s.config.Origin != "" && (origin == s.config.Origin || !s.config.OrHost) {
		return origin == s.config.Origin
	}
	u, err := url.Parse(origin)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && host != "" &&
		origin == u.Scheme+"://"+u.Host && strings.EqualFold(u.Host, host)
}

// TokenOf is the token of a session's forms. It is made of the session's secret, which it does not
// give away.
func TokenOf(secret string) string {
	sum := sha256.Sum256([]byte("tollgate form\n" + secret))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// Fields of the template "once".
const (
	tokenField = "_token"
	onceField  = "_once"
)

// Form reads the fields of a form whose sender has proved that it was written for this session.
func (s *Site) Form(x *server.Exchange, token string) (url.Values, *server.Fault) {
	fields, fault := s.Fields(x)
	if fault != nil {
		return nil, fault
	}
	given := fields.Get(tokenField)
	if token == "" || subtle.ConstantTimeCompare([]byte(given), []byte(token)) != 1 {
		return nil, FaultToken
	}
	return fields, nil
}

// maxFields bounds the fields of a form. A budget's has eight for each of eight limits.
const maxFields = 96

// Fields reads the fields of a form from this site that needs no session: the form to sign in. A
// field that appears more than once is refused as ambiguous.
func (s *Site) Fields(x *server.Exchange) (url.Values, *server.Fault) {
	if fault := s.SameSite(x); fault != nil {
		return nil, fault
	}
	fields, err := parse(x)
	bad := err != nil || len(fields) > maxFields
	for name, values := range fields {
		bad = bad || len(values) != 1 || !utf8.ValidString(name) || !utf8.ValidString(values[0])
		// Browsers send line ends of a text as CR LF.
		fields.Set(name, strings.ReplaceAll(values[0], "\r\n", "\n"))
	}
	if bad {
		return nil, server.FaultFields.With(
			"Nothing was changed. The form could not be read: load the page again.")
	}
	return fields, nil
}

// parse reads a form as browsers send it. Of a file, its content is the field's text, in base64.
func parse(x *server.Exchange) (url.Values, error) {
	media, params, err := mime.ParseMediaType(string(x.Ctx.Request.Header.ContentType()))
	if err != nil || media != UploadMedia[0] {
		return url.ParseQuery(string(x.Body))
	}
	fields := url.Values{}
	for parts := multipart.NewReader(bytes.NewReader(x.Body), params["boundary"]); ; {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			return fields, nil
		}
		if err != nil {
			return nil, err
		}
		text, err := io.ReadAll(part)
		if err != nil {
			return nil, err
		}
		if part.FileName() != "" {
			text = base64.StdEncoding.AppendEncode(nil, text)
		}
		fields.Add(part.FormName(), string(text))
	}
}

// OnceKey is the key that the form was written with: sent twice, it is carried out once.
func OnceKey(fields url.Values) string { return fields.Get(onceField) }

// UploadMedia are those of a form with a file.
var UploadMedia = []string{"multipart/form-data"}

// FormMedia are the media types that a route for a form takes.
var FormMedia = []string{"application/x-www-form-urlencoded"}
