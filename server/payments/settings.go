package payments

import (
	"crypto/rand"
	"fmt"

	"tollgate/engine/billing"
	"tollgate/server/provider/payment"
)

// Settings are what an operator sets; the secrets are in the clear only here.
type Settings struct {
	Provider, BaseURL        string
	SecretKey, WebhookSecret string
	// ForgetPrevious drops the replaced settings at once.
	ForgetPrevious bool
}

// Prepare checks settings and seals their secrets into the command that sets them. Its error
// repeats no secret.
func (d *Service) Prepare(at Place, s Settings) (billing.SetPaymentProvider, error) {
	c := billing.SetPaymentProvider{
		Env: at.Env, Provider: s.Provider, BaseURL: s.BaseURL, ForgetPrevious: s.ForgetPrevious,
	}
	switch s.Provider {
	case billing.ProviderNone, billing.ProviderSandbox:
		if s.BaseURL != "" || s.SecretKey != "" || s.WebhookSecret != "" {
			return c, fmt.Errorf("%s takes neither baseUrl nor secrets", s.Provider)
		}
	case billing.ProviderStripe:
		if _, err := payment.NewStripe(d.config.Fetch, payment.StripeConfig{
			BaseURL: s.BaseURL, SecretKey: payment.Secret(s.SecretKey),
			WebhookSecret: payment.Secret(s.WebhookSecret),
		}); err != nil {
			return c, err
		}
	default:
		return c, fmt.Errorf("provider must be none, sandbox or stripe")
	}
	d.sealInto(&c, at.Env, s)
	return c, nil
}

// sealInto seals the secrets. The same secrets set again stay as they are sealed, so that it is no
// change. The sandbox's own is minted once, and reused when it is set again: the pages that it
// signed stay valid, unless ForgetPrevious is set.
func (d *Service) sealInto(c *billing.SetPaymentProvider, env uint32, s Settings) {
	if s.Provider == billing.ProviderNone {
		return
	}
	minted := s.Provider == billing.ProviderSandbox && s.ForgetPrevious
	for _, old := range d.settings(env) {
		if !minted && old.Provider == s.Provider && old.BaseURL == s.BaseURL &&
			d.sealedIn(&old, env, s) {
			c.SecretKey, c.WebhookSecret = old.SecretKey, old.WebhookSecret
			return
		}
		if key, err := d.vault.Open(env, "secretKey", old.SecretKey); err == nil && key == s.SecretKey &&
			s.Provider == billing.ProviderStripe && c.SecretKey == nil {
			c.SecretKey = old.SecretKey // identifies the account
		}
	}
	if s.Provider == billing.ProviderSandbox {
		s.SecretKey = rand.Text() + rand.Text()
	}
	if c.SecretKey == nil {
		c.SecretKey = d.vault.Seal(env, "secretKey", s.SecretKey)
	}
	if s.WebhookSecret != "" {
		c.WebhookSecret = d.vault.Seal(env, "webhookSecret", s.WebhookSecret)
	}
}

// sealedIn reports whether settings hold these secrets; the sandbox's are whichever there are.
func (d *Service) sealedIn(old *billing.PaymentSettings, env uint32, s Settings) bool {
	key, err := d.vault.Open(env, "secretKey", old.SecretKey)
	if err != nil || s.Provider == billing.ProviderSandbox {
		return err == nil
	}
	secret, err := d.vault.Open(env, "webhookSecret", old.WebhookSecret)
	return err == nil && key == s.SecretKey && secret == s.WebhookSecret
}
