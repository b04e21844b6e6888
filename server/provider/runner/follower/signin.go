package follower

import (
	"net/http"
	"regexp"
	"slices"

	"tollgate/server/inspect/fill"
	"tollgate/server/inspect/openapi"
	"tollgate/server/inspect/signup"
	"tollgate/server/provider/fetch"
)

// signInWords are how requests are called that sign somebody in; notSignIn those that do not,
// though they sound like it.
var (
	signInWords = regexp.MustCompile(`(?i)log[-_ ]?in|sign[-_ ]?in|sessions?\b|authenticate|` +
		`oauth2?/token|auth/token|(get|create|issue|obtain)[-_ ]?(an? )?(access[-_ ]?)?token`)
	notSignIn = regexp.MustCompile(`(?i)log[-_ ]?out|sign[-_ ]?(out|up)|regist|refresh|revoke|reset|` +
		`forgot|verif|confirm|introspect`)
)

// noSignIn is the rule of a product that publishes no way to sign in.
const noSignIn = "no_sign_in_published"

// signIns are the operations by which descriptions say that the holder of an account signs in: a
// POST at the account's own host that takes a password. The account goes to no other host.
func (p *published) signIns() (ways []way) {
	for i := range p.apis {
		a := &p.apis[i]
		for j := range a.Operations {
			o := &a.Operations[j]
			called := o.Path + " " + o.ID.Value + " " + o.Summary.Value
			if o.Method != http.MethodPost || !signInWords.MatchString(called) ||
				notSignIn.MatchString(o.Path+" "+o.ID.Value) ||
				fetch.HostOf(o.Address(a.url)) != p.account.Host || !takesPassword(a, o) {
				continue
			}
			names := signup.AnswerOf(a.Source, o).Names
			ways = append(ways, p.operation(a, o, "sign_in", names))
		}
	}
	return ways
}

// takesPassword reports whether an operation's body has a field for a password.
func takesPassword(a *api, o *openapi.Operation) bool {
	is := func(name string) bool { return signup.Wanted(name) == rulePassword }
	if body, has := a.Body(o); has {
		return slices.ContainsFunc(fill.NamesOf(a.Resolve(body.Schema).Of("properties")), is) ||
			slices.ContainsFunc(fill.NamesOf(body.Example), is)
	}
	return slices.ContainsFunc(a.Parameters(o), func(p openapi.Parameter) bool {
		return p.In == "formData" && is(p.Name)
	})
}

// notSignedIn is the stop of a run that has an account and finds nowhere to use it. It does not
// sign up instead: its owner wants to know how it is for who has an account.
func notSignedIn() *stop {
	return &stop{
		step: stepAuthenticate, rule: noSignIn,
		reason: "Nothing published says how a program signs in with a name and a password.",
	}
}
