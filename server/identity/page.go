package identity

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"

	"tollgate/server"
)

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

var pageTemplate = template.Must(template.New("page").Parse(pageHTML))

// pagePolicy allows the one style sheet, and nothing else.
var pagePolicy = func() string {
	hash := sha256.Sum256([]byte(pageCSS))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(hash[:]) +
		"'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
}()

// What a sign-in may come to. Codes are the workspace API's.
var (
	faultNotConfigured = &server.Fault{
		Status: 503, Code: "authentication_not_configured", RetryAfter: 3600,
		Message: "Sign-in is not configured on this deployment.",
	}
	faultBusy = &server.Fault{
		Status: 503, Code: "workspace_busy", RetryAfter: 1,
		Message: "You are not signed in: the service is busy. Sign in again in a moment.",
	}
	faultIssuer = &server.Fault{
		Status: 503, Code: "workspace_busy", RetryAfter: 30,
		Message: "The identity provider does not answer, so nobody can sign in at the moment. " +
			"Everything else works; whoever is signed in stays signed in. Try again in a minute.",
	}
	faultAttempt = &server.Fault{
		Status: 401, Code: "sign_in_required",
		Message: "This sign-in was begun in another browser, was finished already, or took longer " +
			"than 15 minutes. You are not signed in. Begin again at /login.",
	}
	faultDeclined = &server.Fault{
		Status: 401, Code: "sign_in_required",
		Message: "The identity provider did not sign you in. Begin again at /login.",
	}
	faultRefused = &server.Fault{
		Status: 401, Code: "sign_in_required",
		Message: "What the identity provider has sent cannot be believed, so you are not signed in. " +
			"Begin again at /login; if this comes again, tell whoever operates this service.",
	}
	faultNoAgent = &server.Fault{
		Status: 401, Code: "sign_in_required",
		Message: "This is the sign-in of agents, and the identity provider does not say that you are " +
			"one. You are not signed in. People sign in at /login.",
	}
	faultActor = &server.Fault{
		Status: 401, Code: "sign_in_required",
		Message: "This identity has signed in as a person before, and the identity provider calls it " +
			"an agent now. You are not signed in. Ask the identity provider for an identity of the agent.",
	}
	faultNotAllowed = &server.Fault{
		Status: 403, Code: "person_required",
		Message: "You are not an operator of this deployment, so you are not signed in. Its " +
			"configuration (signIn.operators) says who is one, by e-mail address: ask whoever keeps it, or sign in as " +
			"somebody else.",
	}
	faultNotVerified = &server.Fault{
		Status: 403, Code: "person_required",
		Message: "The identity provider does not say that your e-mail address is verified, and " +
			"operators are known by it. You are not signed in. Verify it there, then sign in again.",
	}
	faultAgentOperates = &server.Fault{
		Status: 403, Code: "person_required",
		Message: "The identity provider says that you are an agent. Only people operate this " +
			"deployment. You are not signed in. Programs use the admin API with its key.",
	}
	faultNetworkFull = &server.Fault{
		Status: 429, Code: "signup_rate_limited", RetryAfter: 3600,
		Message: "You are not signed in, and no workspace was made for you: those that were made from " +
			"this network, and that nobody has claimed, or what is left of those that were removed, take " +
			"as much room as they may. Let a person claim one, or ask the operator.",
	}
	faultFull = &server.Fault{
		Status: 503, Code: "workspace_busy", RetryAfter: 3600,
		Message: "You are not signed in: this deployment knows as many people, or sign-ins, as it may. " +
			"Waiting does not help soon; tell whoever operates it.",
	}
	faultSignupOff = &server.Fault{
		Status: 503, Code: "signup_unavailable", RetryAfter: 3600,
		Message: "Agents cannot get a workspace on this deployment at the moment. You are not signed in.",
	}
	faultLimit = &server.Fault{
		Status: 429, Code: "signup_rate_limited", RetryAfter: 3600,
		Message: "There were too many sign-ins of this identity, or from this address. You are not " +
			"signed in. Try again later.",
	}
	faultOrigin = &server.Fault{
		Status: 403, Code: "origin_not_allowed",
		Message: "This change does not come from a page of this service, or the page is of a session " +
			"that has ended. Nothing was changed. Load the page again.",
	}
)

// fail answers a fault: as a page to a browser, as JSON to anybody else.
func (s *Service) fail(x *server.Exchange, f *server.Fault) {
	x.Refuse(f)
	if !bytes.Contains(x.Ctx.Request.Header.Peek("Accept"), []byte("text/html")) {
		return
	}
	var page bytes.Buffer
	err := pageTemplate.Execute(&page, map[string]any{
		"Message": f.Message, "Code": f.Code, "Style": template.CSS(pageCSS),
		"Request": string(x.RequestID()), "Again": f.Code == "sign_in_required" || f.Status == 403 && f.Code == "person_required",
	})
	if err != nil {
		s.config.Log.Error("a page cannot be written", "error", err)
		return
	}
	x.Ctx.Response.Header.Set("Content-Security-Policy", pagePolicy)
	x.Bare(f.Status, "text/html; charset=utf-8", page.Bytes())
}
