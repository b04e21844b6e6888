// Package mail sends mails: by any SMTP server, or into a folder if none is to be sent. Each
// attempt has a Result with a class, since a mail that may have arrived must not be sent again. See
// DESIGN.md.
package mail

import (
	"context"
	"errors"
	"net/mail"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Message is one mail to one address.
type Message struct {
	// ID names the mail, 1 to 100 of a-z, 0-9, '_' and '-'; it is the same in every attempt, and
	// so is the Message-ID that is made of it.
	ID string `json:"id"`
	// To is an address for which Valid holds.
	To string `json:"to"`
	// Subject is cut to 150 characters, and its control characters are spaces.
	Subject string `json:"subject"`
	// Text is the content; HTML is the same for readers that show it, empty is none. Its author
	// escapes it.
	Text string `json:"text"`
	HTML string `json:"html"`
	// At is its date.
	At time.Time `json:"at"`
}

// Outcome is the class of an attempt's result.
type Outcome string

// The outcomes.
const (
	// Delivered: the mail server took it.
	Delivered Outcome = "delivered"
	// Retry: it was not taken, and may be the next time.
	Retry Outcome = "retry"
	// Refused: it was not taken and never will be.
	Refused Outcome = "refused"
	// Unknown: all of it was sent, and the answer was lost. It may have been taken.
	Unknown Outcome = "unknown"
)

// Result is the result of an attempt, fit to show to its owner.
type Result struct {
	Outcome Outcome
	// Status is the mail server's answer, such as 250 or 550; 0 when there was none.
	Status int
	// Reason is our own text: no words of a mail server, and no address.
	Reason string
}

// Sender sends mails. Safe for concurrent use.
type Sender interface {
	// Send makes one attempt, and ends with ctx at the latest.
	Send(ctx context.Context, m *Message) Result
}

// maxAddress is RFC 5321's limit of an address, in bytes.
const maxAddress = 254

// domainLabel is one part of a domain's name.
const domainLabel = `[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?`

var (
	domainForm = regexp.MustCompile(`^` + domainLabel + `(\.` + domainLabel + `)*$`)
	localForm  = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]{1,64}$")
	idForm     = regexp.MustCompile(`^[a-z0-9_-]{1,100}$`)
)

// Valid reports whether a text is one plain address, local@domain, and nothing else: no name, no
// quotes, no comment, no second address, nothing beyond ASCII, nothing that could end a header's
// line.
func Valid(address string) bool {
	local, domain, found := strings.Cut(address, "@")
	if !found || len(address) > maxAddress || !localForm.MatchString(local) ||
		!domainForm.MatchString(domain) {
		return false
	}
	parsed, err := mail.ParseAddress(address)
	return err == nil && parsed.Address == address && parsed.Name == ""
}

// ErrMessage means that a message cannot be sent, whatever the server is.
var ErrMessage = errors.New("mail: a message has an id, one plain address, a subject and a text")

func (m *Message) check() error {
	if !idForm.MatchString(m.ID) || !Valid(m.To) || m.Text == "" || oneLine(m.Subject) == "" {
		return ErrMessage
	}
	return nil
}

// maxSubject is in characters.
const maxSubject = 150

// oneLine makes a text fit for a header: no control characters, not too long, valid UTF-8.
func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || r == utf8.RuneError {
			return ' '
		}
		return r
	}, text)
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > maxSubject {
		text = string(runes[:maxSubject-1]) + "…"
	}
	return text
}
