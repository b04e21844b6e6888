// Package payments collects invoices through the payment provider that an environment has chosen:
// it makes checkouts, understands webhooks, serves the sandbox's page and polls checkouts that no
// webhook reported. A command applies a payment to an invoice. See DESIGN.md.
package payments

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/uuid/v5"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/wire"
	"tollgate/server"
	"tollgate/server/provider/fetch"
	"tollgate/server/provider/payment"
	"tollgate/server/vault"
)

// Config holds the service's dependencies.
type Config struct {
	Machine  *billing.Machine
	Proposer server.Proposer
	Reader   server.Reader
	// Fetch is the guarded client that reaches providers.
	Fetch *fetch.Client
	// PublicURL is where the public listener is reached from outside, without a trailing slash.
	PublicURL string
	// SealKey seals the providers' secrets in the log; the same on every node.
	SealKey [32]byte
	// Now is the node's clock; time.Now when nil.
	Now func() time.Time
	Log *slog.Logger
}

// Timeouts of one step.
const (
	writeTimeout = 5 * time.Second
	readTimeout  = 2 * time.Second
	// providerTimeout bounds one question to a provider.
	providerTimeout = 10 * time.Second
)

// Service collects invoices. It is safe for concurrent use.
type Service struct {
	config  Config
	machine *billing.Machine
	vault   *vault.Vault
	mu      sync.Mutex
	made    map[uint32]map[uint32]payment.Provider // by environment and revision of its settings

	polling sync.Mutex
	polled  uint64                     // the number of the checkout that the next pass begins with
	next    map[uint64]waitingCheckout // by the checkout's number
}

// New makes the service.
func New(c Config) (*Service, error) {
	if c.Machine == nil || c.Proposer == nil || c.Reader == nil || c.Fetch == nil {
		return nil, errors.New("payments: Machine, Proposer, Reader and Fetch must be set")
	}
	u, err := url.Parse(c.PublicURL)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.Path != "" {
		return nil, fmt.Errorf("payments: the public address %q is not http(s)://host", c.PublicURL)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Log = cmp.Or(c.Log, slog.Default())
	return &Service{
		config: c, machine: c.Machine, vault: vault.New(c.SealKey, "tollgate payment secrets"),
		made: map[uint32]map[uint32]payment.Provider{}, next: map[uint64]waitingCheckout{},
	}, nil
}

// now is the log's time: checkouts and webhooks are dated by it, never by the test clock.
func (d *Service) now() time.Time {
	return time.UnixMilli(d.machine.Clock(d.config.Now().UnixMilli())).UTC()
}

// Base is the path below which an environment's payment routes are served.
func Base(account string, kind billing.EnvironmentKind) string {
	return Prefix + "/" + url.PathEscape(account) + "/" + kind.String()
}

// Prefix is the path that all payment routes begin with.
const Prefix = "/payments"

// errNone means that an environment has no provider.
var errNone = errors.New("payments: no provider is enabled")

// Place names an environment by number and by name.
type Place struct {
	Env     uint32
	Account string
	Kind    billing.EnvironmentKind
}

// Previous are an environment's settings that were replaced and still count, newest first: their
// webhooks are verified, and the checkouts that were made with them polled. d may be nil.
func (d *Service) Previous(env uint32) []billing.PaymentSettings {
	if d == nil {
		return nil
	}
	settings := d.machine.PaymentSettings(env)
	return settings.Kept(d.now().UnixMilli())
}

// settings are those in force and those that were replaced but still count, newest first; none of
// them is ProviderNone.
func (d *Service) settings(env uint32) []billing.PaymentSettings {
	current := d.machine.PaymentSettings(env)
	if current.Provider == billing.ProviderNone {
		return d.Previous(env)
	}
	return append([]billing.PaymentSettings{current}, d.Previous(env)...)
}

// providerOf makes the provider of settings, once for each revision of them. Providers of forgotten
// settings are dropped when the next one is made.
func (d *Service) providerOf(at Place, s *billing.PaymentSettings) (payment.Provider, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if made, ok := d.made[at.Env][s.Revision]; ok {
		return made, nil
	}
	key, err := d.vault.Open(at.Env, "secretKey", s.SecretKey)
	if err != nil {
		return nil, err
	}
	made, err := d.build(at, s, key, "")
	if err != nil {
		return nil, err
	}
	kept := map[uint32]payment.Provider{s.Revision: made}
	for _, other := range d.settings(at.Env) {
		if known, ok := d.made[at.Env][other.Revision]; ok {
			kept[other.Revision] = known
		}
	}
	d.made[at.Env] = kept
	return made, nil
}

// build makes the provider of settings. tag marks its payments, if they are not of invoices.
func (d *Service) build(
	at Place, s *billing.PaymentSettings, key, tag string,
) (payment.Provider, error) {
	if s.Provider == billing.ProviderSandbox {
		return payment.NewSandbox(payment.SandboxConfig{
			Secret:  payment.Secret(key),
			PageURL: d.config.PublicURL + Base(at.Account, at.Kind) + "/sandbox/",
			Receive: func(ctx context.Context, header func(string) string, body []byte) error {
				return d.Receive(at, header, body)
			},
			Invoice: func(_ context.Context, id string) (payment.InvoiceState, error) {
				return d.invoiceState(at, id)
			},
			Now: d.now,
		})
	}
	webhookSecret, err := d.vault.Open(at.Env, "webhookSecret", s.WebhookSecret)
	if err != nil {
		return nil, err
	}
	return payment.NewStripe(d.config.Fetch, payment.StripeConfig{
		BaseURL: s.BaseURL, SecretKey: payment.Secret(key),
		WebhookSecret: payment.Secret(webhookSecret), Live: at.Kind == billing.EnvironmentLive,
		Tag: tag,
	})
}

var errUnavailable = errors.New("payments: no quorum can be reached")

// fresh waits until this node's memory holds every acknowledged write.
func (d *Service) fresh() error {
	if !server.Fresh(d.config.Reader, time.Now().Add(readTimeout)) {
		return errUnavailable
	}
	return nil
}

func (d *Service) invoiceState(at Place, text string) (payment.InvoiceState, error) {
	id, ok := server.ParseUUID(text)
	if !ok {
		return payment.InvoiceClosed, nil
	}
	if err := d.fresh(); err != nil {
		return payment.InvoiceClosed, err
	}
	invoice, ok := d.machine.Invoice(at.Env, id)
	switch {
	case ok && invoice.Status == billing.InvoicePaid:
		return payment.InvoicePaid, nil
	case ok && (invoice.Status == billing.InvoiceDue || invoice.Status == billing.InvoicePastDue):
		return payment.InvoiceOpen, nil
	}
	return payment.InvoiceClosed, nil
}

func newID() [16]byte { return uuid.Must(uuid.NewV7()) }

func (d *Service) propose(kind engine.Kind, c wire.Fielder) engine.Result {
	records := [1]engine.Record{d.config.Machine.Repeatable(kind, wire.Encode(nil, c), newID)}
	var results [1]engine.Result
	d.config.Proposer.Propose(time.Now().Add(writeTimeout), records[:], results[:])
	return results[0]
}

// minor is an amount in the smallest unit of its currency; false when it is not a whole number of
// them, or out of range.
func minor(amount decimal.Decimal, currency string) (int64, bool) {
	places, known := decimal.MinorUnits(currency)
	if !known || amount != amount.Round(places) {
		return 0, false
	}
	text := amount.String()
	whole, fraction, _ := strings.Cut(text, ".")
	var n int64
	for _, c := range whole + fraction + strings.Repeat("0", places-len(fraction)) {
		if c < '0' || c > '9' || n > (1<<62)/10 {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	return n, true
}

// exact converts an amount in minor units to a number.
func exact(a payment.Amount) (decimal.Decimal, bool) {
	number, _, _ := strings.Cut(a.String(), " ")
	value, err := decimal.Parse(number)
	return value, err == nil
}
