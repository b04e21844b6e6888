package fill

import (
	"maps"
	"net/http"
	"net/url"
	"slices"

	"tollgate/server/inspect/signup"
	"tollgate/server/inspect/tree"
)

// Provision is the request to an address by which a block of a document begins a plan.
func (f *Filler) Provision(root *tree.Node, said *signup.Provision, address string) (
	r *Request, why *Stop,
) {
	r = &Request{Method: http.MethodPost, URL: address, Media: "application/json"}
	switch schema, body := said.Block.Of("schema"), said.Block.Of("body"); {
	case schema != nil:
		within := *f
		within.Resolve = func(n *tree.Node) *tree.Node { return signup.Referred(root, n) }
		r.Body, why = within.Body(schema)
	case body != nil:
		r.Body, why = f.Shown("", body, 0)
	}
	return r, why
}

// Shows is the request to an address that a text shows.
func (f *Filler) Shows(said *signup.Shown, address string) (r *Request, why *Stop) {
	r = &Request{Method: said.Method, URL: address, Media: "application/json"}
	if !said.Form {
		if root, err := tree.ParseJSON(said.Body); err == nil {
			r.Body, why = f.Shown("", root, 0)
		}
		return r, why
	}
	r.Media = "application/x-www-form-urlencoded"
	values, err := url.ParseQuery(said.Body)
	if err != nil {
		return r, nil
	}
	fields := map[string]any{}
	r.Body = fields
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value := &tree.Node{Kind: tree.Text, Value: values.Get(name)}
		if fields[name], why = f.Shown(name, value, 0); why != nil {
			break
		}
	}
	return r, why
}

// Inputs are the inputs of a workflow; where one cannot be made, at is that one.
func (f *Filler) Inputs(root, workflow *tree.Node) (made map[string]any, at *tree.Node, why *Stop) {
	within := *f
	within.Resolve = func(n *tree.Node) *tree.Node { return signup.Referred(root, n) }
	properties := within.Resolve(workflow.Of("inputs")).Of("properties")
	left := MaxFields
	made = map[string]any{}
	for i, name := range NamesOf(properties) {
		if made[name], why = within.Value(name, &properties.Items[i], 1, &left); why != nil {
			return nil, &properties.Items[i], why
		}
	}
	return made, nil, nil
}
