package fill

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json"

	"tollgate/server/ascii"
	"tollgate/server/inspect/openapi"
	"tollgate/server/inspect/tree"
)

// maxBody is how long a body is, in bytes.
const maxBody = 32 << 10

// Request is one request.
type Request struct {
	Method, URL, Media string
	Header             http.Header
	// Body is what becomes JSON or a form; nil is none.
	Body any
}

// Request is the request of an operation of a description that was read at an address, with what it
// must have.
func (f *Filler) Request(a *openapi.Source, at string, o *openapi.Operation) (*Request, *Stop) {
	r := &Request{Method: o.Method, URL: o.Address(at), Header: http.Header{}}
	if r.URL == "" {
		return nil, unfillable("", "its address is none")
	}
	form, left, query := map[string]any{}, MaxFields, ""
	for _, p := range a.Parameters(o) {
		if !p.Required {
			continue
		}
		value, why := f.Value(p.Name, p.Schema, 1, &left)
		if why != nil {
			return nil, why
		}
		text := fmt.Sprint(value)
		switch p.In {
		case "path":
			r.URL = strings.ReplaceAll(r.URL, "{"+p.Name+"}", url.PathEscape(text))
		case "query":
			query += "&" + escaped(p.Name) + "=" + escaped(text)
		case "header":
			if usable(p.Name) && usable(text) {
				r.Header.Set(p.Name, text)
			}
		case "formData":
			form[p.Name] = value
		}
	}
	if query != "" {
		r.URL += "?" + query[1:]
	}
	if body, is := a.Body(o); is {
		made, why := f.Body(body.Schema)
		switch {
		case body.Schema == nil && body.Example != nil:
			made, why = f.Shown("", body.Example, 0)
		case strings.Contains(body.Media, "multipart"):
			why = unfillable("", "it is "+body.Media)
		}
		if why != nil {
			return nil, why
		}
		r.Media, r.Body = body.Media, made
	} else if len(form) > 0 {
		r.Media, r.Body = "application/x-www-form-urlencoded", form
	}
	return r, nil
}

// Encoded is the body as it is sent: a form, or JSON.
func (r *Request) Encoded() (body []byte, media string, why *Stop) {
	if r.Body == nil {
		return nil, "", nil
	}
	media = cmp.Or(r.Media, "application/json")
	fields, is := r.Body.(map[string]any)
	switch lower := strings.ToLower(media); {
	case strings.Contains(lower, "form-urlencoded") && is:
		form := url.Values{}
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			if why = inForm(form, name, fields[name]); why != nil {
				return nil, "", why
			}
		}
		body = []byte(form.Encode())
	case strings.Contains(lower, "json") && !strings.ContainsFunc(media, unicode.IsControl):
		var err error
		if body, err = json.Marshal(r.Body, json.Deterministic(true)); err != nil {
			return nil, "", unfillable("", "it is not JSON")
		}
	default:
		return nil, "", unfillable("", "it is "+head(media, 60))
	}
	if len(body) > maxBody {
		return nil, "", unfillable("", "it is too large")
	}
	return body, media, nil
}

// inForm puts a value into a form: a list as one field for each of its items. What lies deeper has
// no place in a form that everybody agrees on.
func inForm(form url.Values, name string, value any) *Stop {
	switch v := value.(type) {
	case map[string]any:
		return unfillable(name, "a form has no place for what lies in it")
	case []any:
		for _, item := range v {
			if why := inForm(form, name, item); why != nil {
				return why
			}
		}
	default:
		form.Add(name, fmt.Sprint(value))
	}
	return nil
}

// inside is the name of a field within another.
func inside(outer, name string) string {
	if outer == "" {
		return name
	}
	return outer + "[" + name + "]"
}

func escaped(text string) string { return url.QueryEscape(text) }

// usable reports whether a text may be in a header.
func usable(text string) bool {
	return ascii.Printable(text)
}

func head(text string, n int) string { return tree.Cut(strings.ToValidUTF8(text, "?"), n) }
