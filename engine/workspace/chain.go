package workspace

// Page says which part of a list is asked for, newest first.
type Page struct {
	// After is the last record of the page before; zero begins.
	After [16]byte
	Limit int // 1–100
}

// chain is the records of one kind in a workspace: each knows the one before it.
type chain[View any] struct {
	newest uint32
	before func(row uint32) uint32
	find   func(id [16]byte) uint32
	view   func(row uint32) View
	// hidden reports whether a record is in no list; nil: each is.
	hidden func(row uint32) bool
}

// list is a page of a chain; more reports whether there are others behind it.
func list[View any](p *Page, c chain[View]) (views []View, more bool) {
	row := c.newest
	if p.After != ([16]byte{}) {
		if row = c.find(p.After); row != 0 {
			row = c.before(row)
		}
	}
	for ; row != 0; row = c.before(row) {
		if c.hidden != nil && c.hidden(row) {
			continue
		}
		if len(views) == p.Limit {
			return views, true
		}
		views = append(views, c.view(row))
	}
	return views, false
}

// chainOf is the records of a workspace from its newest on.
func chainOf[T, View any](r *records[T], workspace, newest uint32, view func(row uint32) View,
) chain[View] {
	return chain[View]{
		newest: newest, view: view,
		before: func(row uint32) uint32 { return r.head(r.Read(row)).before },
		find:   func(id [16]byte) uint32 { return r.of(workspace, id) },
	}
}

// shown is the view of a row; false where the row is 0.
func shown[View any](row uint32, view func(row uint32) View) (v View, ok bool) {
	if row != 0 {
		v = view(row)
	}
	return v, row != 0
}
