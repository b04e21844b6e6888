package mail

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/mail"
	"net/textproto"
	"strconv"
	"strings"
	"time"

	gomail "github.com/wneessen/go-mail"
)

// Security is how a connection to a mail server is made secret.
type Security string

// The ways.
const (
	// SecurityTLS: TLS from the beginning, usually port 465.
	SecurityTLS Security = "tls"
	// SecuritySTARTTLS: TLS before any other command, usually port 587; a server without it is not
	// used.
	SecuritySTARTTLS Security = "starttls"
	// SecurityNone: in plaintext. Nothing is authenticated then.
	SecurityNone Security = "none"
)

// Password is what a mail server knows us by. Printing and logging it shows nothing.
type Password string

// String hides the password.
func (Password) String() string { return "…" }

// GoString hides the password.
func (Password) GoString() string { return "…" }

// Format hides the password from every verb.
func (Password) Format(f fmt.State, _ rune) {
	fmt.Fprint(f, "…")
}

// LogValue hides the password.
func (Password) LogValue() slog.Value { return slog.StringValue("…") }

// SMTPConfig configures the mail server.
type SMTPConfig struct {
	Host     string
	Port     int
	Security Security
	// Username and Password are for servers that ask; empty is nothing.
	Username string
	Password Password
	// From is who mails are from: an address, or a name and an address.
	From string
	// Timeout bounds one attempt, 30 s when 0.
	Timeout time.Duration
	// Dial opens connections; net.Dialer's when nil.
	Dial func(ctx context.Context, hostPort string) (net.Conn, error)
	// TLS is the base configuration; nil asks for the server's name and at least TLS 1.2.
	TLS *tls.Config
}

// SMTP sends mails by a mail server, each over a connection of its own: mails are few.
type SMTP struct {
	config SMTPConfig
	from   *mail.Address
	domain string // of Message-IDs
}

// NewSMTP makes a sender. It does not speak to the server.
func NewSMTP(c SMTPConfig) (*SMTP, error) {
	from, err := mail.ParseAddress(c.From)
	if err != nil || !Valid(from.Address) || oneLine(from.Name) != from.Name {
		return nil, errors.New("mail: from: want an address, or a name and an address in <>")
	}
	switch {
	case c.Host == "" || c.Port < 1 || c.Port > 65535:
		return nil, errors.New("mail: want a host and a port")
	case c.Security == SecurityNone && (c.Username != "" || c.Password != ""):
		return nil, errors.New("mail: a username and a password are not sent in plaintext: " +
			"security tls or starttls")
	case c.Security != SecurityTLS && c.Security != SecuritySTARTTLS && c.Security != SecurityNone:
		return nil, errors.New("mail: security: want tls, starttls or none")
	}
	c.Timeout = cmp.Or(c.Timeout, 30*time.Second)
	if c.Dial == nil {
		c.Dial = func(ctx context.Context, hostPort string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", hostPort)
		}
	}
	c.TLS = cmp.Or(c.TLS, &tls.Config{MinVersion: tls.VersionTLS12})
	c.TLS = c.TLS.Clone()
	c.TLS.ServerName = c.Host
	_, domain, _ := strings.Cut(from.Address, "@")
	return &SMTP{config: c, from: from, domain: domain}, nil
}

// Send makes one attempt.
func (s *SMTP) Send(ctx context.Context, m *Message) Result {
	if m.check() != nil {
		return Result{Outcome: Refused, Reason: "the address cannot be written to"}
	}
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	client, err := s.client()
	if err != nil {
		return Result{Outcome: Retry, Reason: "the mail settings of this server are not usable"}
	}
	connection, err := client.DialToSMTPClientWithContext(ctx)
	if err != nil {
		return Result{Outcome: Retry, Status: answerOf(err), Reason: unreached(err)}
	}
	// No read outlives ctx: closing the connection ends it.
	over := context.AfterFunc(ctx, func() { ignore(connection.Close()) })
	defer over()
	err = client.SendWithSMTPClient(connection, s.compose(m))
	ignore(client.CloseWithSMTPClient(connection))
	return judge(err)
}

// ignore drops an error of closing: the mail's result is known.
func ignore(error) {}

func (s *SMTP) client() (*gomail.Client, error) {
	c := &s.config
	options := []gomail.Option{
		gomail.WithPort(c.Port), gomail.WithTimeout(c.Timeout), gomail.WithTLSConfig(c.TLS),
		gomail.WithHELO(s.domain), gomail.WithoutNoop(), gomail.WithoutSMTPUTF8(),
		gomail.WithDialContextFunc(s.dial),
	}
	switch c.Security {
	case SecuritySTARTTLS:
		options = append(options, gomail.WithTLSPolicy(gomail.TLSMandatory))
	case SecurityTLS:
		options = append(options, gomail.WithTLSPolicy(gomail.TLSOpportunistic)) // dial has done it
	default:
		options = append(options, gomail.WithTLSPolicy(gomail.NoTLS))
	}
	if c.Username != "" {
		options = append(options, gomail.WithSMTPAuth(gomail.SMTPAuthAutoDiscover),
			gomail.WithUsername(c.Username), gomail.WithPassword(string(c.Password)))
	}
	return gomail.NewClient(c.Host, options...)
}

// dial opens a connection, and makes it secret where that is to be done from the beginning.
func (s *SMTP) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	address := net.JoinHostPort(s.config.Host, strconv.Itoa(s.config.Port))
	connection, err := s.config.Dial(ctx, address)
	if err != nil || s.config.Security != SecurityTLS {
		return connection, err
	}
	secret := tls.Client(connection, s.config.TLS)
	if err := secret.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, connection.Close())
	}
	return secret, nil
}

// compose makes the bytes of a message: the same for each attempt but for the boundary.
func (s *SMTP) compose(m *Message) *gomail.Msg {
	msg := gomail.NewMsg(gomail.WithNoDefaultUserAgent())
	msg.FromMailAddress(s.from)
	msg.ToMailAddress(&mail.Address{Address: m.To})
	msg.Subject(oneLine(m.Subject))
	msg.SetMessageIDWithValue(m.ID + "@" + s.domain)
	msg.SetDateWithValue(m.At)
	// RFC 3834: no automatic replies.
	msg.SetGenHeader("Auto-Submitted", "auto-generated")
	msg.SetBodyString(gomail.TypeTextPlain, m.Text)
	if m.HTML != "" {
		msg.AddAlternativeString(gomail.TypeTextHTML, m.HTML)
	}
	return msg
}

// judge classifies an error of sending. Only the last dot ends a mail: before it, nothing can have
// been accepted; after it, the server's reply decides, and without one the result is unknown.
func judge(err error) Result {
	var no *gomail.SendError
	switch {
	case err == nil:
		return Result{Outcome: Delivered, Status: 250}
	case !errors.As(err, &no) || no.Reason == gomail.ErrAmbiguous:
		return Result{Outcome: Unknown, Reason: "it is unknown whether the mail server accepted it"}
	case no.Reason == gomail.ErrSMTPReset:
		return Result{Outcome: Delivered, Status: 250} // a later step failed
	}
	code := no.ErrorCode()
	switch {
	case code >= 500:
		return Result{Refused, code, "the mail server answered " + strconv.Itoa(code)}
	case code >= 400:
		return Result{Retry, code, "the mail server answered " + strconv.Itoa(code)}
	case no.Reason == gomail.ErrSMTPDataClose:
		return Result{Outcome: Unknown, Reason: "the connection broke before the mail server answered"}
	}
	return Result{Outcome: Retry, Reason: "the connection to the mail server broke"}
}

// answerOf is the status of SMTP within an error; 0 is none.
func answerOf(err error) int {
	var said *textproto.Error
	if errors.As(err, &said) {
		return said.Code
	}
	return 0
}

// unreached describes why no mail server was reached.
func unreached(err error) string {
	var certificate *tls.CertificateVerificationError
	switch code := answerOf(err); {
	case code == 535 || code == 534 || code == 530:
		return "the mail server does not know this server's username and password"
	case code != 0:
		return "the mail server answered " + strconv.Itoa(code)
	case errors.As(err, &certificate):
		return "the mail server's certificate is not trusted"
	case errors.Is(err, context.DeadlineExceeded):
		return "the mail server did not answer in time"
	case errors.Is(err, io.EOF):
		return "the mail server ended the connection"
	}
	return "the mail server could not be reached"
}
