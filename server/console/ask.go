package console

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"tollgate/server"
	"tollgate/server/console/page"
)

// sureField marks a form whose sender has seen its effect.
const sureField = "_sure"

// question is what a form asks before it is carried out.
type question struct {
	Title string
	// Facts describe the change, Invoices its immediate cost, as the engine previews it.
	Facts []fact
	// Found are further facts, which take long to find: only the page that shows them asks for them.
	Found    func() []fact
	Invoices []invoice
	// Asked reports whether the engine was asked for invoices: none is an answer, too.
	Asked bool
	// Notes are other effects, and those that cannot be undone.
	Notes []string
	// Button names the change, Danger marks a removal; Back leads away.
	Button string
	Danger bool
	Back   string
	// Fields are the form's own, Once is its key, Action is where it is sent.
	Fields       []field
	Once, Action string
}

type fact struct{ Name, Value string }

type field struct{ Name, Value string }

// sure reports whether the sender has confirmed the form.
func (v *visit) sure() bool { return v.fields.Get(sureField) == "yes" }

// Where a form asks, and the field with its key there.
const (
	questionPath = "/confirm"
	onceQuery    = "once"
	// maxQuestion bounds the address of a question in bytes; a longer one is shown at once.
	maxQuestion = 8 << 10
)

// asked is a form that asks first.
func asked(r row) row {
	r.asks = true
	return r
}

// asking is a form that asks with one function, and once that is confirmed, is carried out by
// another.
func asking(path, name string, ask, carryOut func(*visit)) row {
	return asked(form(path, name, func(v *visit) {
		if v.sure() {
			carryOut(v)
		} else {
			ask(v)
		}
	}))
}

// question is the page on which a form asks. It changes nothing.
func (r *row) question() *row {
	q := *r
	q.method, q.path, q.name = "GET", r.path+questionPath, r.name+" question"
	return &q
}

// ask shows what the form will do, and lets its sender confirm it. Nothing is changed by it. The
// page has an address, so that going back to it sends nothing again, and the address has the key of
// the form that confirms: sent twice, also after going back, it is carried out once.
func (v *visit) ask(q question) {
	if v.fails() {
		return
	}
	action, asks := strings.CutSuffix(string(v.x.Ctx.URI().PathOriginal()), questionPath)
	query := url.Values{onceQuery: {v.fields.Get(onceQuery)}}
	if query.Get(onceQuery) == "" {
		query.Set(onceQuery, page.MintOnce())
	}
	for _, name := range slices.Sorted(maps.Keys(v.fields)) {
		if !strings.HasPrefix(name, "_") && name != onceQuery {
			q.Fields = append(q.Fields, field{name, v.fields.Get(name)})
			query.Set(name, v.fields.Get(name))
		}
	}
	if to := action + questionPath + "?" + query.Encode(); !asks && len(to) <= maxQuestion {
		v.console.site.Redirect(v.x, to)
		return
	}
	if q.Found != nil {
		q.Facts = append(q.Facts, q.Found()...)
	}
	q.Once, q.Action = query.Get(onceQuery), action
	p := page.View{Page: "confirm", Title: q.Title, Data: q}
	if v.environment != "" {
		p = v.environmentPage(p.Page, tabOf(v), q.Title, "", q)
	}
	v.show(p)
}

// preview asks the engine what a change would bill at once.
func (v *visit) preview(query url.Values) ([]invoice, *server.Fault) {
	call := v.adminCall("previewInvoices")
	call.Query = query
	type seen struct {
		Invoices []invoice `json:"invoices"`
	}
	made, fault := dataOf[seen](v, v.admin(call))
	return made.Invoices, fault
}
