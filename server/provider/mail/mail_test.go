package mail_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net"
	netmail "net/mail"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
	"github.com/stretchr/testify/require"

	"tollgate/server/provider/mail"
)

// post is a mail server in this process.
type post struct {
	mu     sync.Mutex
	taken  []string // whole messages
	to     []string
	logins []string
	// refuse is asked at each step: rcpt, data.
	refuse func(step string) error
	addr   *net.TCPAddr
	roots  *x509.CertPool
}

type session struct{ p *post }

func (s *session) AuthMechanisms() []string { return []string{sasl.Plain} }

func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, username, password string) error {
		s.p.mu.Lock()
		defer s.p.mu.Unlock()
		s.p.logins = append(s.p.logins, username+":"+password)
		if password != "right" {
			return smtp.ErrAuthFailed
		}
		return nil
	}), nil
}

func (s *session) Mail(string, *smtp.MailOptions) error { return nil }

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	s.p.to = append(s.p.to, to)
	return s.p.refuse("rcpt")
}

func (s *session) Data(r io.Reader) error {
	body, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	if err := s.p.refuse("data"); err != nil {
		return err
	}
	s.p.taken = append(s.p.taken, string(body))
	return nil
}

func (s *session) Reset()        {}
func (s *session) Logout() error { return nil }

// certificate is one of our own, for 127.0.0.1, and who trusts it.
func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "post"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key)
	require.NoError(t, err)
	parsed, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, roots
}

// open serves mail on loopback. implicit is TLS from the beginning; else STARTTLS is offered.
func open(t *testing.T, implicit bool) *post {
	t.Helper()
	p := &post{refuse: func(string) error { return nil }}
	var pair tls.Certificate
	pair, p.roots = certificate(t)
	server := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) {
		return &session{p}, nil
	}))
	server.Domain, server.ErrorLog = "post.example", nothing{}
	config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p.addr = listener.Addr().(*net.TCPAddr)
	if implicit {
		listener = tls.NewListener(listener, config)
	} else {
		server.TLSConfig = config
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		require.NoError(t, server.Close())
		<-ended
	})
	return p
}

type nothing struct{}

func (nothing) Printf(string, ...any) {}
func (nothing) Println(...any)        {}

// sender sends to the post; change edits the default, STARTTLS with the right password.
func (p *post) sender(t *testing.T, change func(c *mail.SMTPConfig)) *mail.SMTP {
	t.Helper()
	c := mail.SMTPConfig{
		Host: "127.0.0.1", Port: p.addr.Port, Security: mail.SecuritySTARTTLS, Username: "tollgate",
		Password: "right", From: "Tollgate <alerts@tollgate.example>", Timeout: 5 * time.Second,
		TLS: &tls.Config{RootCAs: p.roots, MinVersion: tls.VersionTLS12},
	}
	if change != nil {
		change(&c)
	}
	s, err := mail.NewSMTP(c)
	require.NoError(t, err)
	return s
}

func message() *mail.Message {
	return &mail.Message{
		ID: "alr_1", To: "ada@acme.example", Subject: "It stopped passing", Text: "Look at it.",
		HTML: "<p>Look at it.</p>", At: time.Date(2026, 1, 31, 15, 0, 0, 0, time.UTC),
	}
}

// parts reads a mail as its reader does.
func parts(t *testing.T, raw string) (netmail.Header, map[string]string) {
	t.Helper()
	m, err := netmail.ReadMessage(strings.NewReader(raw))
	require.NoError(t, err)
	kind, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	require.NoError(t, err)
	require.Equal(t, "multipart/alternative", kind)
	found := map[string]string{}
	for r := multipart.NewReader(m.Body, params["boundary"]); ; {
		part, err := r.NextRawPart()
		if errors.Is(err, io.EOF) {
			return m.Header, found
		}
		require.NoError(t, err)
		require.Equal(t, "quoted-printable", part.Header.Get("Content-Transfer-Encoding"))
		text, err := io.ReadAll(quotedprintable.NewReader(part))
		require.NoError(t, err)
		kind, _, err := mime.ParseMediaType(part.Header.Get("Content-Type"))
		require.NoError(t, err)
		found[kind] = string(text)
	}
}

// TestAMailArrives: by STARTTLS and by TLS from the beginning, with its parts, a Message-ID of its
// own that is the same each time, and no answering machine.
func TestAMailArrives(t *testing.T) {
	for _, implicit := range []bool{false, true} {
		p := open(t, implicit)
		s := p.sender(t, func(c *mail.SMTPConfig) {
			if implicit {
				c.Security = mail.SecurityTLS
			}
		})
		for range 2 {
			require.Equal(t, mail.Result{Outcome: mail.Delivered, Status: 250},
				s.Send(t.Context(), message()))
		}
		require.Equal(t, []string{"ada@acme.example", "ada@acme.example"}, p.to)
		require.Equal(t, "tollgate:right", p.logins[0])
		for _, raw := range p.taken {
			header, found := parts(t, raw)
			require.Equal(t, "<alr_1@tollgate.example>", header.Get("Message-ID"))
			require.Equal(t, `"Tollgate" <alerts@tollgate.example>`, header.Get("From"))
			require.Equal(t, "auto-generated", header.Get("Auto-Submitted"))
			require.Equal(t, "It stopped passing", header.Get("Subject"))
			require.Equal(t, "Look at it.", found["text/plain"])
			require.Equal(t, "<p>Look at it.</p>", found["text/html"])
			at, err := header.Date()
			require.NoError(t, err)
			require.True(t, at.Equal(message().At))
		}
	}
}

// TestNothingIsSaidInClear: neither mail nor password goes to a server without TLS, or with a
// foreign certificate.
func TestNothingIsSaidInClear(t *testing.T) {
	p := open(t, false)
	bare := open(t, false)
	s := p.sender(t, func(c *mail.SMTPConfig) { c.TLS = nil })
	got := s.Send(t.Context(), message())
	require.Equal(t, mail.Retry, got.Outcome)
	require.Equal(t, "the mail server's certificate is not trusted", got.Reason)
	s = p.sender(t, func(c *mail.SMTPConfig) { c.TLS = &tls.Config{RootCAs: bare.roots} })
	require.Equal(t, mail.Retry, s.Send(t.Context(), message()).Outcome)

	plain, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) {
		return &session{p}, nil
	}))
	server.ErrorLog = nothing{}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(plain) }()
	for _, login := range []bool{true, false} { // without a password the mail is a secret, too
		s = p.sender(t, func(c *mail.SMTPConfig) {
			c.Port = plain.Addr().(*net.TCPAddr).Port
			if !login {
				c.Username, c.Password = "", ""
			}
		})
		require.Equal(t, mail.Retry, s.Send(t.Context(), message()).Outcome)
	}
	require.NoError(t, server.Close())
	<-ended
	require.Empty(t, p.taken)
	require.Empty(t, p.logins)

	_, err = mail.NewSMTP(mail.SMTPConfig{
		Host: "a.example", Port: 25, Security: mail.SecurityNone, From: "a@b.example", Password: "x",
	})
	require.ErrorContains(t, err, "not sent in plaintext")
}

// TestHeadersCannotBeMade: whatever a subject or an address contains, there is one recipient and no
// additional header; only plain addresses get mail.
func TestHeadersCannotBeMade(t *testing.T) {
	p := open(t, false)
	s := p.sender(t, nil)
	m := message()
	m.Subject = "a\r\nBcc: eve@evil.example\r\n\r\n<script>\x00\u2028\xff" + strings.Repeat("é", 500)
	m.Text = "line\r\n.\r\nMAIL FROM:<eve@evil.example>\r\n"
	require.Equal(t, mail.Delivered, s.Send(t.Context(), m).Outcome)
	header, found := parts(t, p.taken[0])
	require.Empty(t, header.Get("Bcc"))
	require.Equal(t, []string{"ada@acme.example"}, p.to)
	subject, err := (&mime.WordDecoder{}).DecodeHeader(header.Get("Subject"))
	require.NoError(t, err)
	require.Equal(t, 150, len([]rune(subject)))
	require.True(t, strings.HasPrefix(subject, "a Bcc: eve@evil.example <script> é"), subject)
	require.Contains(t, found["text/plain"], "MAIL FROM:<eve@evil.example>")
	require.Len(t, p.taken, 1)

	for _, to := range []string{
		"", "ada", "ada@", "@acme.example", "ada@acme.example, eve@evil.example",
		"Ada <ada@acme.example>", "ada@acme.example\r\nRCPT TO:<eve@evil.example>", "ada@acme.example ",
		`"ada"@acme.example`, "ada@[127.0.0.1]", "ada@acme..example", "ada@-acme.example",
		"ada(eve)@acme.example", "äda@acme.example", "ada@acme.example>", "a@b@acme.example",
		"<ada@acme.example>", ".ada@acme.example", strings.Repeat("a", 65) + "@acme.example",
		"a@" + strings.Repeat("a.", 130) + "example",
	} {
		require.False(t, mail.Valid(to), to)
		m := message()
		m.To = to
		require.Equal(t, mail.Refused, s.Send(t.Context(), m).Outcome, to)
	}
	for _, to := range []string{"ada@acme.example", "a.b+c_d@x-y.example", "o'hara@acme.example"} {
		require.True(t, mail.Valid(to), to)
	}
	m = message()
	m.ID = "a\r\nb"
	require.Equal(t, mail.Refused, s.Send(t.Context(), m).Outcome)
	require.Len(t, p.taken, 1)
}

// TestWhatCameOfIt: each answer of a mail server has its class, and no words of the server's own.
func TestWhatCameOfIt(t *testing.T) {
	p := open(t, false)
	s := p.sender(t, nil)
	say := func(code int) error { return &smtp.SMTPError{Code: code, Message: "internal-host-7"} }
	for _, row := range []struct {
		step string
		code int
		want mail.Outcome
	}{
		{"rcpt", 550, mail.Refused},
		{"rcpt", 451, mail.Retry},
		{"data", 554, mail.Refused},
		{"data", 452, mail.Retry},
	} {
		p.refuse = func(step string) error {
			if step == row.step {
				return say(row.code)
			}
			return nil
		}
		got := s.Send(t.Context(), message())
		require.Equal(t, row.want, got.Outcome, "%s %d", row.step, row.code)
		require.Equal(t, row.code, got.Status)
		require.Equal(t, fmt.Sprintf("the mail server answered %d", row.code), got.Reason)
	}
	require.Empty(t, p.taken)

	got := p.sender(t, func(c *mail.SMTPConfig) { c.Password = "wrong" }).Send(t.Context(), message())
	require.Equal(t, mail.Retry, got.Outcome)
	require.Equal(t, "the mail server does not know this server's username and password", got.Reason)

	got = p.sender(t, func(c *mail.SMTPConfig) {
		c.Dial = func(context.Context, string) (net.Conn, error) { return nil, errors.New("secret path") }
	}).Send(t.Context(), message())
	require.Equal(t, mail.Result{
		Outcome: mail.Retry, Reason: "the mail server could not be reached",
	}, got)
}

// cutting ends a connection once the mail's last dot has been sent, before anybody answers.
type cutting struct {
	net.Conn
	dot string
}

func (c *cutting) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if strings.HasSuffix(string(b), c.dot) {
		err = errors.Join(err, c.Close())
	}
	return n, err
}

// TestWhatIsNotKnown: a mail whose last dot was sent, without a reply, may have been accepted; one
// whose end was never sent was not.
func TestWhatIsNotKnown(t *testing.T) {
	p := open(t, false)
	for dot, want := range map[string]mail.Outcome{
		"\r\n.\r\n": mail.Unknown, "DATA\r\n": mail.Retry, "<ada@acme.example>\r\n": mail.Retry,
	} {
		s := p.sender(t, func(c *mail.SMTPConfig) {
			c.Security, c.Username, c.Password = mail.SecurityNone, "", ""
			c.Dial = func(ctx context.Context, hostPort string) (net.Conn, error) {
				connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", hostPort)
				return &cutting{connection, dot}, err
			}
		})
		require.Equal(t, want, s.Send(t.Context(), message()).Outcome, dot)
	}
}

// TestASilentServer: waiting for a silent mail server ends with the context.
func TestASilentServer(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, silent.Close()) })
	p := &post{addr: silent.Addr().(*net.TCPAddr)}
	s := p.sender(t, func(c *mail.SMTPConfig) { c.Timeout = 200 * time.Millisecond })
	require.Equal(t, mail.Retry, s.Send(t.Context(), message()).Outcome)
}

// TestThePasswordIsShownNowhere: by no verb and no logger.
func TestThePasswordIsShownNowhere(t *testing.T) {
	c := mail.SMTPConfig{Password: "hunter2"}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("settings", "config", c, "password", c.Password)
	log.WriteString(fmt.Sprintf("%v %+v %#v %s %q", c, c, c, c.Password, c.Password))
	require.NotContains(t, log.String(), "hunter2")
}

// TestSettings: what cannot work is refused at the start.
func TestSettings(t *testing.T) {
	good := mail.SMTPConfig{
		Host: "mail.example", Port: 587, Security: mail.SecuritySTARTTLS, From: "a@b.example",
	}
	_, err := mail.NewSMTP(good)
	require.NoError(t, err)
	for name, change := range map[string]func(c *mail.SMTPConfig){
		"no host":       func(c *mail.SMTPConfig) { c.Host = "" },
		"port":          func(c *mail.SMTPConfig) { c.Port = 65536 },
		"security":      func(c *mail.SMTPConfig) { c.Security = "" },
		"from":          func(c *mail.SMTPConfig) { c.From = "somebody" },
		"from injected": func(c *mail.SMTPConfig) { c.From = "\"a\r\nBcc: x@y.example\" <a@b.example>" },
	} {
		c := good
		change(&c)
		_, err := mail.NewSMTP(c)
		require.Error(t, err, name)
	}
}

// TestAFolderKeepsMails: newest first, the same one once, the newest 200, and nothing else of the
// folder is touched.
func TestAFolderKeepsMails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mails")
	f, err := mail.OpenFolder(dir)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "other"), []byte("x"), 0o600))
	for i := range 205 {
		m := message()
		m.ID, m.At = fmt.Sprint("m", i), m.At.Add(time.Duration(i)*time.Second)
		for range 2 {
			require.Equal(t, mail.Result{Outcome: mail.Delivered}, f.Send(t.Context(), m))
		}
	}
	kept, err := f.Newest(1000)
	require.NoError(t, err)
	require.Len(t, kept, 200)
	require.Equal(t, "m204", kept[0].ID)
	require.Equal(t, "m5", kept[199].ID)
	_, err = os.Stat(filepath.Join(dir, "other"))
	require.NoError(t, err)
	bad := message()
	bad.To = "nobody"
	require.Equal(t, mail.Refused, f.Send(t.Context(), bad).Outcome)
}
