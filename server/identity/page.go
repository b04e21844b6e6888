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

// Failures of a sign-in. Codes are the workspace API's.
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
		Message: "The identity provider does not answer, so signing in is not possible at the " +
			"moment. Sessions that exist stay valid. Try again in a minute.",
	}
	faultAttempt = &server.Fault{
		Status: 401, Code: "sign_in_required",
		Message: "This sign-in was started in another browser, is already finished, or took " +
			"longer than 15 minutes. You are not signed in. Start again at /login.",
	}
	faultDeclined = &server.Fault{
		Status: 401, Code: "sign_in_required",
		Message: "The identity provider did not sign you in. Start again at /login.",
	}
	faultRefused = &server.Fault{
		Status: 401, Code: "sign_in_required",
		Message: "The identity provider's answer failed verification, so you are not signed in. " +
			"Start again at /login; if this happens again, contact the operator of this service.",
	}
	faultNoAgent = &server.Fault{
		Status: 401, Code: "sign_in_required",
		Message: "This is the sign-in for agents, and the identity provider does not identify " +
			"you as one. You are not signed in. People sign in at /login.",
	}
	faultActor = &server.Fault{
		Status: 401, Code: "sign_in_required",
		Message: "This identity signed in as a person before, and the identity provider calls " +
			"it an agent now. You are not signed in. Ask the identity provider for an identity " +
			"of the agent.",
	}
	faultNotAllowed = &server.Fault{
		Status: 403, Code: "person_required",
		Message: "You are not an operator of this deployment, so you are not signed in. Its " +
			"configuration (signIn.operators) lists operators by e-mail address: ask its " +
			"administrator, or sign in with another account.",
	}
	faultNotVerified = &server.Fault{
		Status: 403, Code: "person_required",
		Message: "The identity provider has not verified your e-mail address, which identifies " +
			"operators. You are not signed in. Verify it there, then sign in again.",
	}
	faultAgentOperates = &server.Fault{
		Status: 403, Code: "person_required",
		Message: "The identity provider identifies you as an agent. Only people operate this " +
			"deployment. You are not signed in. Programs use the admin API with its key.",
	}
	faultNetworkFull = &server.Fault{
		Status: 429, Code: "signup_rate_limited", RetryAfter: 3600,
		Message: "You are not signed in, and no workspace was made for you: the unclaimed " +
			"workspaces made from this network, with the remains of removed ones, have reached " +
			"the limit of one network. Let a person claim one, or ask the operator.",
	}
	faultFull = &server.Fault{
		Status: 503, Code: "workspace_busy", RetryAfter: 3600,
		Message: "You are not signed in: the limit of people or sessions of this deployment is " +
			"reached. Retrying soon does not help; contact its operator.",
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
	x.Policy(pagePolicy)
	x.Bare(f.Status, "text/html; charset=utf-8", page.Bytes())
}
