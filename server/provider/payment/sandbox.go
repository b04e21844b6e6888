package payment

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"tollgate/server/provider/webhook"
)

const (
	sandboxName   = "sandbox"
	checkoutMark  = "cs_sandbox_"
	eventMark     = "evt_sandbox_"
	maxTokenBytes = 8192
)

// SandboxConfig is one account's sandbox environment.
type SandboxConfig struct {
	// Secret is at least 32 random bytes of this environment alone: its signatures are valid only
	// here. Everything else is derived from it.
	Secret Secret
	// PageURL is where Page and Act are served, ending in "/"; a token is appended to it.
	PageURL string
	// Receive hands a signed webhook to our own endpoint, as a provider on the internet would. It
	// returns nil only once what the webhook reports is committed.
	Receive func(ctx context.Context, header func(name string) string, body []byte) error
	// Invoice reports whether an invoice takes a payment. The page asks before it shows and before
	// it acts.
	Invoice func(ctx context.Context, invoiceID string) (InvoiceState, error)
	// Now is the clock that RequestedAt was taken from; nil is the machine's.
	Now func() time.Time
}

// InvoiceState is what the sandbox's page has to know of an invoice.
type InvoiceState int

// The states.
const (
	// InvoiceOpen takes a payment.
	InvoiceOpen InvoiceState = iota
	// InvoicePaid is paid, by whichever means.
	InvoicePaid
	// InvoiceClosed takes none: void, or unknown.
	InvoiceClosed
)

// Sandbox is the built-in provider. It keeps nothing: a checkout is a signed token in its URL, and
// a payment is the webhook that was accepted. See Page and Act in sandbox_page.go.
type Sandbox struct {
	config SandboxConfig
	// Each use has its own key, so that a signature of one kind is none of another.
	tokenKey, idKey, eventKey []byte
	signer                    webhook.Secret
}

// NewSandbox makes the built-in provider. An error names the setting that is wrong.
func NewSandbox(c SandboxConfig) (*Sandbox, error) {
	switch {
	case len(c.Secret) < 32:
		return nil, errors.New("payment: sandbox: the secret needs at least 32 bytes")
	case !returnURL(c.PageURL) || !strings.HasSuffix(c.PageURL, "/"):
		return nil, errors.New("payment: sandbox: the page address is an http URL that ends in /")
	case c.Receive == nil || c.Invoice == nil:
		return nil, errors.New("payment: sandbox: Receive and Invoice are needed")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	key := []byte(c.Secret)
	signer, err := webhook.SecretFromKey(derive(key, "webhook"))
	if err != nil {
		return nil, err
	}
	return &Sandbox{
		config:   c,
		tokenKey: derive(key, "token"), idKey: derive(key, "id"), eventKey: derive(key, "event"),
		signer: signer,
	}, nil
}

func derive(key []byte, use string) []byte { return sum(key, "tollgate sandbox "+use) }

// sum is HMAC-SHA256 over parts whose borders cannot be moved.
func sum(key []byte, parts ...string) []byte {
	h := hmac.New(sha256.New, key)
	for _, part := range parts {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		h.Write(length[:])
		h.Write([]byte(part))
	}
	return h.Sum(nil)
}

// Name is the value of the account's setting.
func (s *Sandbox) Name() string { return sandboxName }

// ticket is what a token carries.
type ticket struct {
	ID          string `json:"id"`
	InvoiceID   string `json:"inv"`
	Description string `json:"d"`
	Minor       int64  `json:"a"`
	Currency    string `json:"c"`
	SuccessURL  string `json:"s"`
	CancelURL   string `json:"x"`
	ExpiresMS   int64  `json:"e"`
	SaveCard    bool   `json:"k,omitzero"`
}

func (t *ticket) amount() Amount       { return Amount{t.Minor, t.Currency} }
func (t *ticket) expiresAt() time.Time { return time.UnixMilli(t.ExpiresMS).UTC() }

// CreateCheckout is a function of the request: the same request gives the same bytes.
func (s *Sandbox) CreateCheckout(ctx context.Context, r CheckoutRequest) (Checkout, error) {
	if err := ctx.Err(); err != nil {
		return Checkout{}, err
	}
	if err := r.validate(sandboxName); err != nil {
		return Checkout{}, err
	}
	expires := r.RequestedAt.Add(CheckoutLife).UnixMilli()
	// The id covers the whole request: one key with another amount is another checkout, whose
	// payment is not taken for a repetition of the first.
	parts := []string{
		r.IdempotencyKey, r.InvoiceID, r.Description, r.Amount.Currency,
		strconv.FormatInt(r.Amount.Minor, 10), r.SuccessURL, r.CancelURL,
	}
	if r.SaveCard {
		parts = append(parts, "save card")
	}
	nonce := sum(s.idKey, parts...)[:16]
	t := ticket{
		ID: s.checkoutID(expires, nonce), InvoiceID: r.InvoiceID, Description: r.Description,
		Minor: r.Amount.Minor, Currency: r.Amount.Currency,
		SuccessURL: r.SuccessURL, CancelURL: r.CancelURL, ExpiresMS: expires,
		SaveCard: r.SaveCard,
	}
	payload, err := json.Marshal(t, json.Deterministic(true))
	if err != nil {
		return Checkout{}, failure(ClassRefused, sandboxName, "invalid_text",
			"the request holds text that is not UTF-8")
	}
	token := s.seal(payload)
	if len(token) > maxTokenBytes {
		return Checkout{}, failure(ClassRefused, sandboxName, "invalid_url",
			"the success and cancel addresses are too long to travel in a URL")
	}
	return Checkout{ID: t.ID, URL: s.config.PageURL + token, ExpiresAt: t.expiresAt()}, nil
}

// checkoutID is expiry, nonce and a tag over both: a poll needs the first and trusts only the last.
func (s *Sandbox) checkoutID(expiresMS int64, nonce []byte) string {
	raw := binary.BigEndian.AppendUint64(nil, uint64(expiresMS))
	raw = append(raw, nonce...)
	raw = append(raw, sum(s.idKey, "tag", string(raw))[:16]...)
	return checkoutMark + base64.RawURLEncoding.EncodeToString(raw)
}

// Checkout answers open or expired. It never answers paid: a payment is the webhook that was
// accepted, and the page shows it as paid only after that, so none can be missed.
func (s *Sandbox) Checkout(ctx context.Context, id string) (Status, error) {
	if err := ctx.Err(); err != nil {
		return Status{}, err
	}
	text, marked := strings.CutPrefix(id, checkoutMark)
	raw, err := decodeText(text)
	if !marked || err != nil || len(raw) != 40 ||
		!hmac.Equal(raw[24:], sum(s.idKey, "tag", string(raw[:24]))[:16]) {
		return Status{}, failure(ClassNotFound, sandboxName, "unknown_checkout",
			"this environment made no such checkout")
	}
	state := StateOpen
	if !s.config.Now().Before(time.UnixMilli(int64(binary.BigEndian.Uint64(raw)))) {
		state = StateExpired
	}
	return Status{ID: id, State: state}, nil
}

// seal makes a token: base64url(payload) "." base64url(HMAC-SHA256(payload)).
func (s *Sandbox) seal(payload []byte) string {
	encode := base64.RawURLEncoding.EncodeToString
	return encode(payload) + "." + encode(sum(s.tokenKey, string(payload)))
}

var (
	errToken   = errors.New("payment: sandbox: not a token of this environment")
	errExpired = errors.New("payment: sandbox: the token has expired")
)

// open reads a token. With errExpired the ticket is genuine all the same.
func (s *Sandbox) open(token string) (*ticket, error) {
	if len(token) > maxTokenBytes {
		return nil, errToken
	}
	body, tag, found := strings.Cut(token, ".")
	if !found {
		return nil, errToken
	}
	payload, err := decodeText(body)
	if err != nil {
		return nil, errToken
	}
	mac, err := decodeText(tag)
	if err != nil || !hmac.Equal(mac, sum(s.tokenKey, string(payload))) {
		return nil, errToken
	}
	t := new(ticket)
	if err := json.Unmarshal(payload, t, json.RejectUnknownMembers(true)); err != nil {
		return nil, errToken
	}
	if !s.config.Now().Before(t.expiresAt()) {
		return t, errExpired
	}
	return t, nil
}

// notice is the body of the sandbox's webhooks.
type notice struct {
	ID         string     `json:"id"`
	Type       string     `json:"type"`
	OccurredAt string     `json:"occurredAt"`
	Data       noticeData `json:"data"`
}

type noticeData struct {
	CheckoutID  string `json:"checkoutId"`
	InvoiceID   string `json:"invoiceId"`
	AmountMinor int64  `json:"amountMinor"`
	Currency    string `json:"currency"`
	PaymentID   string `json:"paymentId,omitzero"`
	Card        string `json:"card,omitzero"`
}

const noticePrefix = "checkout."

// report signs a webhook and hands it to our endpoint. A checkout is paid once however often the
// button is pressed: the event of its payment always has the same id. A failure has the id of its
// attempt, which is the same when a browser sends a form again.
func (s *Sandbox) report(
	ctx context.Context, t *ticket, kind EventKind, attempt, card string,
) error {
	data := noticeData{
		CheckoutID: t.ID, InvoiceID: t.InvoiceID, AmountMinor: t.Minor, Currency: t.Currency,
	}
	if kind == EventPaid {
		attempt = ""
		data.PaymentID = s.paymentID(t.ID)
		if t.SaveCard {
			data.Card = savedCardMark + card
		}
	}
	id := sum(s.eventKey, string(kind), t.ID, attempt)[:16]
	now := s.config.Now()
	n := notice{
		ID:         eventMark + base64.RawURLEncoding.EncodeToString(id),
		Type:       noticePrefix + string(kind),
		OccurredAt: now.UTC().Format(time.RFC3339Nano),
		Data:       data,
	}
	body, err := json.Marshal(n)
	if err != nil {
		return err
	}
	signed, err := webhook.Sign([]webhook.Secret{s.signer}, n.ID, now, body)
	if err != nil {
		return err
	}
	header := func(name string) string {
		switch strings.ToLower(name) {
		case webhook.HeaderID:
			return signed.ID
		case webhook.HeaderTimestamp:
			return signed.Timestamp
		case webhook.HeaderSignature:
			return signed.Signature
		case "content-type":
			return "application/json"
		}
		return ""
	}
	return s.config.Receive(ctx, header, body)
}

// ParseWebhook verifies the Standard Webhooks signature that report made.
func (s *Sandbox) ParseWebhook(
	now time.Time, header func(string) string, body []byte,
) (Event, error) {
	if len(body) > MaxWebhook {
		return Event{}, ErrPayload
	}
	signed := webhook.ReadHeaders(header)
	if _, err := webhook.Verify([]webhook.Secret{s.signer}, signed, body, now); err != nil {
		if errors.Is(err, webhook.ErrTimestamp) {
			return Event{}, ErrTimestamp
		}
		return Event{}, ErrSignature
	}
	var n notice
	if err := json.Unmarshal(body, &n, json.RejectUnknownMembers(true)); err != nil {
		return Event{}, ErrPayload
	}
	at, err := time.Parse(time.RFC3339Nano, n.OccurredAt)
	kind, known := strings.CutPrefix(n.Type, noticePrefix)
	if err != nil || !known {
		return Event{}, ErrPayload
	}
	switch EventKind(kind) {
	case EventPaid, EventFailed:
	default:
		return Event{}, ErrPayload
	}
	return Event{
		ID: n.ID, Kind: EventKind(kind), Type: n.Type,
		CheckoutID: n.Data.CheckoutID, InvoiceID: n.Data.InvoiceID,
		Amount: Amount{n.Data.AmountMinor, n.Data.Currency}, OccurredAt: at.UTC(),
		PaymentID: n.Data.PaymentID, Card: n.Data.Card,
	}, nil
}

// host is the destination in a link's text.
func host(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}

// decodeText reads base64 in its only spelling: the package skips line breaks.
func decodeText(text string) ([]byte, error) {
	if strings.ContainsAny(text, "\r\n") {
		return nil, base64.CorruptInputError(strings.IndexAny(text, "\r\n"))
	}
	return base64.RawURLEncoding.Strict().DecodeString(text)
}
