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
	faultNotConfigured = server.NewFault(503, "authentication_not_configured",
		"Sign-in is not configured on this deployment.").Retry(server.RetryOperator)
	faultBusy = server.NewFault(503, "workspace_busy", "You are not signed in: the service is busy. "+
		"Sign in again in a moment.").Retry(1)
	faultIssuer = server.NewFault(503, "workspace_busy", "The identity provider does not answer, so "+
		"signing in is not possible at the moment. Sessions that exist stay valid. Try again in a "+
		"minute.").Retry(30)
	faultAttempt = server.NewFault(401, "sign_in_required", "This sign-in was started in another "+
		"browser, is already finished, or took longer than 15 minutes. You are not signed in. Start "+
		"again at /login.")
	faultDeclined = server.NewFault(401, "sign_in_required",
		"The identity provider did not sign you in. Start again at /login.")
	faultRefused = server.NewFault(401, "sign_in_required", "The identity provider's answer failed "+
		"verification, so you are not signed in. Start again at /login; if this happens again, contact "+
		"the operator of this service.")
	faultNoAgent = server.NewFault(401, "sign_in_required", "This is the sign-in for agents, and the "+
		"identity provider does not identify you as one. You are not signed in. People sign in at "+
		"/login.")
	faultNotAllowed = server.NewFault(403, "person_required", "You are not an operator of this "+
		"deployment, so you are not signed in. Its configuration (signIn.operators) lists operators by "+
		"e-mail address: ask its administrator, or sign in with another account.")
	faultNotVerified = server.NewFault(403, "person_required", "The identity provider has not "+
		"verified your e-mail address, which identifies operators. You are not signed in. Verify it "+
		"there, then sign in again.")
	faultAgentOperates = server.NewFault(403, "person_required",
		"The identity provider identifies you as an agent. Only people operate this deployment. You are "+
			"not signed in. Programs use the admin API with its key.")
	faultOrigin = server.NewFault(403, "origin_not_allowed", "This change does not come from a page "+
		"of this service, or the page is of a session that has ended. Nothing was changed. Load the "+
		"page again.")
)

// fail answers a fault: as a page to a browser, as JSON to other clients.
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
