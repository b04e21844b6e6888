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
}

// Prepare checks settings and seals their secrets into the command that sets them. The error says
// what is wrong, and repeats no secret.
func (d *Desk) Prepare(at Place, s Settings) (billing.SetPaymentProvider, error) {
	c := billing.SetPaymentProvider{Env: at.Env, Provider: s.Provider, BaseURL: s.BaseURL}
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
	return c, d.sealInto(&c, at.Env, s)
}

// sealInto seals the secrets. The sandbox's own is minted once, and kept when it is set again: the
// pages that it signed stay good.
func (d *Desk) sealInto(c *billing.SetPaymentProvider, env uint32, s Settings) (err error) {
	switch s.Provider {
	case billing.ProviderNone:
		return nil
	case billing.ProviderSandbox:
		if old := d.machine.PaymentSettings(env); old.Provider == billing.ProviderSandbox {
			if _, err := d.vault.Open(env, "secretKey", old.SecretKey); err == nil {
				c.SecretKey = old.SecretKey
				return nil
			}
		}
		s.SecretKey = rand.Text() + rand.Text()
	}
	if c.SecretKey, err = d.vault.Seal(env, "secretKey", s.SecretKey); err != nil {
		return err
	}
	c.WebhookSecret, err = d.vault.Seal(env, "webhookSecret", s.WebhookSecret)
	return err
}
