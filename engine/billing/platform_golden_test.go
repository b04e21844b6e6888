package billing_test

import (
	"tollgate/bench/enginetest"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/wire"
)

// goldenPlatform are the commands around billing: customers' data, keys and repeated requests.
func goldenPlatform() map[string]wire.Fielder {
	id := enginetest.ID
	return map[string]wire.Fielder{
		"command-96-update-customer": &billing.UpdateCustomer{
			Env: 1, ExternalID: "ada", Set: billing.CustomerEmail | billing.CustomerAddress,
			FirstName: "Ada", LastName: "Lovelace", Email: "ada@example.com", PhoneNumber: "+44 1",
			Address: "London",
		},
		"command-97-archive-customer": &billing.ArchiveCustomer{
			Env: 1, ExternalID: "ada", Actor: "admin",
		},
		"command-98-erase-customer": &billing.EraseCustomer{Env: 1, ExternalID: "ada", Actor: "admin"},
		"command-99-once": &billing.Once{
			Env: 1, Key: id("key"), Body: id("body"), Kind: billing.KindMarkInvoicePaid,
			Payload: wire.Encode(nil, &billing.MarkInvoicePaid{Env: 1, ID: id("i")}),
		},
		"command-51-keep-answer": &billing.KeepAnswer{
			Env: 1, Key: id("key"), Customer: 7, Status: 201, Answer: []byte(`{"success":true}`),
		},
		"command-100-set-origins": &billing.SetOrigins{
			Env: 1, Origins: []string{"https://shop.example"}, Actor: "admin",
		},
		"command-101-set-payment-provider": &billing.SetPaymentProvider{
			Env: 1, Provider: "stripe", BaseURL: "https://api.stripe.com", SecretKey: []byte{1, 2},
			WebhookSecret: []byte{3}, Actor: "admin",
		},
		"command-101-set-payment-provider-forgetting": &billing.SetPaymentProvider{
			Env: 1, Provider: "none", Actor: "admin", ForgetPrevious: true,
		},
		"command-144-set-payment-terms": &billing.SetPaymentTerms{Env: 1, Days: 30, Actor: "admin"},
		"command-144-set-settle-minutes": &billing.SetPaymentTerms{
			Env: 1, Actor: "admin", KeepDays: true, SetSettle: true, SettleMinutes: 90,
		},
		"command-224-set-seller": &billing.SetSeller{
			Env: 1, Actor: "admin", Seller: billing.Seller{
				Name: "Demo Ltd", Address: "1 Main St, Oslo", Email: "pay@demo.example", TaxID: "NO 1",
			},
		},
		"command-225-set-portal": &billing.SetPortal{
			Env: 1, Actor: "admin", Portal: billing.Portal{
				Colour: "#17645a", LogoMedia: "image/png", Logo: []byte("\x89PNG"),
			},
		},
		"command-226-revoke-portal-links": &billing.RevokePortalLinks{
			Env: 1, Customer: "ada", Actor: "admin",
		},
		"command-227-note-portal-link": &billing.NotePortalLink{
			Env: 1, Customer: "ada", Expires: "2026-01-01T00:00:00.000Z", Actor: "admin",
		},
		"command-156-submit": &billing.Submit{
			ID: id("attempt"), Kind: billing.KindRevertCancellation,
			Payload: wire.Encode(nil, &billing.RevertCancellation{Env: 1, ID: id("s")}),
		},
		"command-102-open-checkout": &billing.OpenCheckout{Env: 1, ID: id("c"), InvoiceID: id("i")},
		"command-103-note-checkout": &billing.NoteCheckout{
			ID: id("c"), ProviderID: "cs_test_1", Closed: true,
		},
		"command-103-note-checkout-of-settings": &billing.NoteCheckout{
			ID: id("c"), ProviderID: "cs_test_1", Provider: "stripe", Revision: 3,
		},
		"command-104-record-payment": &billing.RecordPayment{
			Env: 1, Provider: "stripe", EventID: "evt_1", CheckoutID: "cs_test_1", InvoiceID: id("i"),
			Amount: decimal.MustParse("20"), Currency: "USD",
		},
	}
}
