package billing_test

import (
	"tollgate/bench/enginetest"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/wire"
)

// goldenCredits are the commands of credits, and a catalog that sells them.
func goldenCredits() map[string]wire.Fielder {
	id := enginetest.ID
	doc := enginetest.TokenPlan()
	doc.Plans[0].CreditAllocations = []billing.CreditAllocationDocument{{
		Pool: "tokens", Denomination: "tokens", Currency: "EUR", Amount: decimal.FromInt(1000),
		Priority: -1, ExpiresAfterDays: 30, RolloverPolicy: "CAPPED", HasCap: true,
		RolloverCap: decimal.FromInt(50), HardLimit: true,
	}}
	doc.Plans[0].Features[1].Pricing.Credits = billing.CreditsDocument{
		Pool: "tokens", Weight: decimal.MustParse("0.5"),
	}
	return map[string]wire.Fielder{
		"command-21-apply-catalog-with-credits": enginetest.ApplyCatalog(1, doc),
		"command-64-create-pool": &billing.CreatePool{
			Env: 1, ID: id("p"), Customer: "ada", Name: "tokens", Denomination: "tokens",
			Currency: "EUR", HardLimit: true, RolloverPolicy: "CAPPED", HasCap: true,
			RolloverCap: decimal.FromInt(50), Priority: -3, Metadata: []byte(`{"a":1}`),
			Actor: "admin",
		},
		"command-65-grant-credits": &billing.GrantCredits{
			Env: 1, ID: id("g"), Pool: id("p"), Type: "PURCHASED", Amount: decimal.FromInt(10),
			Priority: -1, ExpiresAt: 1769871600000, Note: "order 7", Actor: "admin",
		},
		"command-66-deduct-credits": &billing.DeductCredits{
			Env: 1, ID: id("d"), Pool: id("p"), Amount: decimal.MustParse("2.5"), Note: "fee",
			Actor: "admin",
		},
		"command-228-set-low-balance": &billing.SetLowBalance{
			Env: 1, ID: id("p"), LowBalance: decimal.FromInt(25), Actor: "admin",
		},
		"command-229-set-top-up": &billing.SetTopUp{
			Env: 1, ID: id("p"), Below: decimal.FromInt(20), Amount: decimal.FromInt(500),
			Price: decimal.MustParse("9.9"), Currency: "EUR", MonthlyCap: decimal.FromInt(50),
			CooldownMS: 3_600_000, Method: "cus_1/pm_2", ExpiresAfterDays: 90, Actor: "admin",
		},
		"command-230-stop-top-up": &billing.StopTopUp{Env: 1, ID: id("p"), Actor: "admin"},
		"command-231-record-top-up": &billing.RecordTopUp{
			Env: 1, Pool: id("p"), ID: id("t"), Paid: true, Payment: "pi_1", Code: "card_declined",
		},
		"command-232-end-top-up": &billing.EndTopUp{
			Env: 1, Pool: id("p"), ID: id("t"), Actor: "admin",
		},
		"command-67-freeze-pool":   &billing.FreezePool{Env: 1, ID: id("p"), Actor: "admin"},
		"command-68-unfreeze-pool": &billing.UnfreezePool{Env: 1, ID: id("p"), Actor: "admin"},
		"command-69-archive-pool":  &billing.ArchivePool{Env: 1, ID: id("p"), Actor: "admin"},
		"command-70-reverse-transaction": &billing.ReverseTransaction{
			Env: 1, ID: id("r"), Transaction: id("d"), Note: "mistake", Actor: "admin",
		},
		"command-70-reverse-left-transaction": &billing.ReverseTransaction{
			Env: 1, ID: id("r"), Transaction: id("d"), Actor: "admin", Left: []byte{1, 2, 3},
		},
	}
}
