package owner

import (
	"cmp"
	"net/url"

	"tollgate/engine/workspace"
	"tollgate/server/console/page"
	"tollgate/server/workspaceapi"
)

const (
	// pageSize is how many records a list shows.
	pageSize = 50
	// maxWalked bounds the records that one page of a list looks at; the next page goes on there.
	// maxFileWalked bounds those of a file.
	maxWalked     = 1000
	maxFileWalked = 50_000
)

// records is a kind of records of a workspace: how they are named, read, told apart and listed.
type records[T any] struct {
	noun workspaceapi.Noun
	// path is that of the list, below Root; name is what one is called.
	path, name string
	read       func(*workspace.Machine, uint32, workspace.Page) ([]T, bool)
	id         func(*T) [16]byte
	// only reports whether a record is in the list; nil: each is.
	only func(*T) bool
	// choices are what the list may be narrowed to, by what chosen says of a record.
	choices []choice
	chosen  func(*T) string
	// columns are those of the file, to which add adds a record.
	columns []string
	add     func(*page.Sheet, *T)
}

// choice is what a list may be narrowed to, by the name that its chip has.
type choice struct{ text, value string }

// list is the part of a list of records, newest first, that a page shows.
type list[T any] struct {
	List  []T
	Chips []page.Link
	// Narrowed reports whether records may be left out: an empty list says nothing of others.
	Narrowed bool
	CSV      string
	Pager    page.Pager
}

// narrowing is the parameter of a list's address that says what it is narrowed to.
const narrowing = "only"

// walk hands the records that the page's address selects to take, newest first, until take has no
// room or so many were looked at. more reports whether there may be others behind the record last.
func (r *records[T]) walk(v *visit, most int, take func(*T) bool) (last [16]byte, more bool) {
	only, at := v.query(narrowing), workspace.Page{}
	at.After, _ = r.noun.Parse(v.query("cursor"))
	for walked := 0; walked < most; {
		at.Limit = min(pageSize+1, most-walked)
		var some []T
		some, more = r.read(v.config.Machine, v.who.Workspace, at)
		for i := range some {
			t := &some[i]
			listed := (r.only == nil || r.only(t)) && (only == "" || r.chosen == nil || r.chosen(t) == only)
			if listed && !take(t) {
				return at.After, true
			}
			at.After = r.id(t)
		}
		if walked += len(some); !more {
			return at.After, false
		}
	}
	return at.After, true
}

// list reads the part that the page's address names.
func (r *records[T]) list(v *visit) (l list[T]) {
	last, more := r.walk(v, cmp.Or(v.walked, maxWalked), func(t *T) bool {
		if len(l.List) == pageSize {
			return false
		}
		l.List = append(l.List, *t)
		return true
	})
	base, only, keep := Root+r.path, v.query(narrowing), url.Values{}
	if only != "" {
		keep.Set(narrowing, only)
	}
	at := func(path string, query url.Values) string {
		if len(query) > 0 {
			path += "?" + query.Encode()
		}
		return path
	}
	for _, c := range r.choices {
		chip := page.Link{Text: c.text, URL: base, Here: c.value == only}
		if c.value != "" {
			chip.URL = at(base, url.Values{narrowing: {c.value}})
		}
		l.Chips = append(l.Chips, chip)
	}
	l.CSV = at(base+".csv", keep)
	if v.query("cursor") != "" {
		l.Pager.First = at(base, keep)
	}
	if more {
		l.Pager.Next = at(base, url.Values{"cursor": {r.noun.Text(last)}, narrowing: keep[narrowing]})
	}
	l.Pager = l.Pager.Of(len(l.List), r.name)
	l.Narrowed = only != "" || more
	return l
}

// page is a page that shows such a list and nothing else.
func (r *records[T]) page(name, title, lead string) func(*visit) {
	return func(v *visit) {
		v.show(page.View{Page: name, Title: title, Lead: lead, Data: r.list(v)})
	}
}

// file is the row of such a list as a file, of the same address.
func (r *records[T]) file() row {
	return row{
		method: "GET", path: r.path + ".csv", name: r.path[1:] + " as csv", live: true,
		show: func(v *visit) {
			s := page.NewSheet(r.columns...)
			_, s.Short = r.walk(v, cmp.Or(v.fileWalked, maxFileWalked), func(t *T) bool {
				r.add(s, t)
				return !s.More
			})
			v.site.Download(v.x, r.path[1:], s)
		},
	}
}

// record is the record that the path names; false when it is answered.
func (r *records[T]) record(v *visit, read func(uint32, [16]byte) (T, bool)) (t T, ok bool) {
	id, ok := v.id(r.noun)
	if !ok {
		return t, false
	}
	if t, ok = read(v.who.Workspace, id); !ok {
		v.fail(faultUnknown)
	}
	return t, ok
}

// textOf is a record's id in a file; empty for none.
func textOf(noun workspaceapi.Noun, id [16]byte) string {
	if id == ([16]byte{}) {
		return ""
	}
	return noun.Text(id)
}
