package payment

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"errors"
	"html/template"
	"net/url"
	"strconv"
	"time"

	"tollgate/server/ascii"
)

//go:embed sandbox.html
var sandboxHTML string

//go:embed sandbox.css
var sandboxCSS string

var (
	sandboxTemplate = template.Must(template.New("sandbox").Parse(sandboxHTML))
	sandboxPolicy   = contentPolicy(sandboxCSS)
)

// contentPolicy allows one style sheet, forms to ourselves, and nothing else: no script, no image,
// no frame around the page.
func contentPolicy(css string) string {
	hash := sha256.Sum256([]byte(css))
	return "default-src 'none'; style-src 'sha256-" +
		base64.StdEncoding.EncodeToString(hash[:]) +
		"'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
}

// Answer is an HTTP answer for whichever server mounts the page.
type Answer struct {
	Status int
	// Header holds each name once.
	Header map[string]string
	Body   []byte
}

// The steps of the page.
const (
	stepPay    = "pay"
	stepVerify = "verify"
	stepPaid   = "paid"
	stepGone   = "gone"
)

// The cards that the form offers, and what the second step's buttons send.
const (
	cardSuccess      = "success"
	cardDecline      = "decline"
	cardAuthenticate = "authenticate"
	// Cards that pay now and, where the page saves them, not again without their owner.
	cardLaterDecline      = "later-decline"
	cardLaterAuthenticate = "later-authenticate"
	verifyConfirm         = "confirm"
	verifyRefuse          = "refuse"
)

// pageView is what the template shows.
type pageView struct {
	Step, Title             string
	Description, Amount     string
	Expires, Attempt        string
	Alert                   string
	SuccessURL, SuccessHost string
	CancelURL, CancelHost   string
	SaveCard                bool
	Style                   template.CSS
}

// Page shows a checkout: GET PageURL+token. It changes nothing.
func (s *Sandbox) Page(ctx context.Context, token string) Answer {
	t, refused := s.load(ctx, token)
	if refused != nil {
		return *refused
	}
	return s.show(t, stepPay, 200, "")
}

// Act carries out a posted form: POST PageURL+token. The form's card is success, decline or
// authenticate; after authenticate, verify is confirm or refuse. attempt comes from the page.
func (s *Sandbox) Act(ctx context.Context, token string, form url.Values) Answer {
	t, refused := s.load(ctx, token)
	if refused != nil {
		return *refused
	}
	attempt := form.Get("attempt")
	if !ascii.Visible(attempt, 64) {
		return s.show(t, stepPay, 400, "That form was incomplete. Nothing was charged. Try again.")
	}
	switch verify := form.Get("verify"); {
	case verify == verifyConfirm:
		return s.pay(ctx, t, token, attempt, cardSuccess)
	case verify == verifyRefuse:
		return s.fail(ctx, t, attempt, "The authentication failed. Nothing was charged.")
	case verify != "":
		return s.show(t, stepPay, 400, "That answer is not one of the two. Nothing was charged.")
	}
	later := form.Get("card") == cardLaterDecline || form.Get("card") == cardLaterAuthenticate
	switch card := form.Get("card"); {
	case card == cardSuccess || later && t.SaveCard:
		return s.pay(ctx, t, token, attempt, card)
	case card == cardDecline:
		return s.fail(ctx, t, attempt, "The card was declined. Nothing was charged.")
	case card == cardAuthenticate:
		return s.show(t, stepVerify, 200, "")
	default:
		return s.show(t, stepPay, 400, "Choose a card. Nothing was charged.")
	}
}

// load opens a token and looks whether its invoice still takes a payment; otherwise it returns the
// page with the reason.
func (s *Sandbox) load(ctx context.Context, token string) (*ticket, *Answer) {
	t, err := s.open(token)
	if err != nil && !errors.Is(err, errExpired) {
		answer := render(404, pageView{Step: stepGone, Title: "No such payment page"})
		return nil, &answer
	}
	refuse := func(step string, status int, alert string) (*ticket, *Answer) {
		answer := s.show(t, step, status, alert)
		return nil, &answer
	}
	state, stateErr := s.config.Invoice(ctx, t.InvoiceID)
	switch {
	case stateErr != nil:
		return refuse(stepGone, 503, "The invoice cannot be read at the moment. "+
			"Nothing was charged. Reload this page in a while.")
	case state == InvoicePaid:
		return refuse(stepPaid, 200, "")
	case state != InvoiceOpen:
		return refuse(stepGone, 410, "This invoice takes no payment. Nothing was charged.")
	case err != nil:
		return refuse(stepGone, 410, "This payment page has expired. Nothing was charged. "+
			"Ask for a new one.")
	}
	return t, nil
}

// pay answers with a redirect to the page itself, which shows the receipt: reloading repeats no
// form, and form-action can stay 'self', which also binds redirects after a form.
func (s *Sandbox) pay(ctx context.Context, t *ticket, token, attempt, card string) Answer {
	if err := s.report(ctx, t, EventPaid, attempt, card); err != nil {
		return s.show(t, stepPay, 503, "The payment could not be recorded and was not made. "+
			"Trying again cannot charge twice.")
	}
	answer := Answer{Status: 303, Header: pageHeader()}
	answer.Header["Location"] = s.config.PageURL + token
	return answer
}

func (s *Sandbox) fail(ctx context.Context, t *ticket, attempt, alert string) Answer {
	if err := s.report(ctx, t, EventFailed, attempt, ""); err != nil {
		return s.show(t, stepPay, 503, "The failed payment could not be recorded. "+
			"Nothing was charged.")
	}
	return s.show(t, stepPay, 402, alert)
}

var pageTitles = map[string]string{
	stepPay: "Pay ", stepVerify: "Confirm ", stepPaid: "Paid: ", stepGone: "Not payable: ",
}

func (s *Sandbox) show(t *ticket, step string, status int, alert string) Answer {
	return render(status, pageView{
		Step: step, Title: pageTitles[step] + t.Description, Alert: alert,
		Description: t.Description, Amount: t.amount().String(),
		Expires: t.expiresAt().Format(time.RFC1123), Attempt: rand.Text(),
		SuccessURL: t.SuccessURL, SuccessHost: host(t.SuccessURL),
		CancelURL: t.CancelURL, CancelHost: host(t.CancelURL), SaveCard: t.SaveCard,
	})
}

func render(status int, view pageView) Answer {
	view.Style = template.CSS(sandboxCSS)
	var body bytes.Buffer
	answer := Answer{Status: status, Header: pageHeader()}
	if err := sandboxTemplate.Execute(&body, view); err != nil {
		// The template and its data are ours: this is a mistake in the program, not in a request.
		answer.Status = 500
		body.Reset()
		body.WriteString("The page could not be made. Nothing was charged.")
	}
	answer.Body = body.Bytes()
	answer.Header["Content-Length"] = strconv.Itoa(body.Len())
	return answer
}

func pageHeader() map[string]string {
	return map[string]string{
		"Content-Type":            "text/html; charset=utf-8",
		"Content-Security-Policy": sandboxPolicy,
		"Cache-Control":           "no-store",
		"Referrer-Policy":         "no-referrer",
		"X-Content-Type-Options":  "nosniff",
		"X-Frame-Options":         "DENY",
	}
}
