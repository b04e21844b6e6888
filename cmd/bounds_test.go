package cmd_test

import (
	"fmt"
	"go/constant"
	"go/types"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/engine/schema"
)

// bounds are the constants that a tag, a help text or a package that may not import theirs states
// again. A place is a constant, or a field and what of its tags has the number: max, min or help. A
// factor behind it is how many of the constant's units are one of its own.
var bounds = map[string][]string{
	"engine/billing maxGraceDays": {
		"engine/billing CreateSubscription.GraceDays max", "engine/billing SubscriptionView.GraceDays max",
		"bench/load graceDays",
	},
	"engine/billing maxPaidNote":        {"server/client maxPaidNote"},
	"engine/billing MaxTopUpDays":       {"engine/billing SetTopUp.ExpiresAfterDays max"},
	"engine/billing MaxPaymentMethod":   {"engine/billing SetTopUp.Method max"},
	"engine/billing MinTopUpCooldownMS": {"server/billingview TopUpRequest.CooldownSeconds min 1000"},
	"engine/billing MaxTopUpCooldownMS": {"server/billingview TopUpRequest.CooldownSeconds max 1000"},
	"engine/billing MaxReservationMS": {
		"server/client reservationRequest.Seconds max 1000",
		"server/client reservationExtension.Seconds max 1000",
	},
	"engine/billing MaxKeyOverlapMS": {"cmd/tollgate/cli keysRollCommand.OverlapHours help 3600000"},
	"engine/billing/internal/accounts MaxPaymentTermDays": {
		"server/admin termsAnswer.Days max", "cmd/tollgate/cli paymentsTermsCommand.Days help",
	},
	"engine/billing/internal/accounts MaxSettleMinutes": {
		"server/admin termsAnswer.SettleMinutes max", "cmd/tollgate/cli paymentsTermsCommand.Settle help",
	},
	"engine/billing/internal/accounts MaxWebhookURL": {
		"engine/billing/internal/outbox WebhookEndpointView.URL max", "server/admin maxWebhook",
	},
	"engine/billing/internal/accounts MaxWebhookAbout": {
		"engine/billing/internal/outbox WebhookEndpointView.About max", "server/admin maxAbout",
	},
	"engine/billing/internal/budgets maxKey": {
		"engine/billing/internal/budgets PutBudget.Parent max",
		"engine/billing/internal/budgets BudgetView.Key max", "engine/billing RecordUsage.Budget max",
		"engine/billing BindKey.Budget max", "server/client reservationRequest.Budget max",
	},
	"engine/billing/internal/budgets maxName": {
		"engine/billing/internal/budgets PutBudget.Name max",
		"engine/billing/internal/budgets BudgetView.Name max",
	},
	"engine/billing/internal/catalogs maxKeyCharacters": {
		"engine/billing/internal/catalogs FeatureDocument.Key max",
		"engine/billing/internal/catalogs FeatureDocument.Labels max",
		"engine/billing/internal/catalogs PlanDocument.Key max",
		"engine/billing/internal/catalogs PlanFeatureDocument.Key max",
		"engine/billing/internal/catalogs CatalogChange.Key max",
	},
	"engine/billing/internal/catalogs MaxNameCharacters": {
		"engine/billing CreatePool.Name max", "engine/billing/internal/catalogs FeatureDocument.Name max",
		"engine/billing/internal/catalogs PlanDocument.Name max",
		"engine/billing/internal/catalogs CreditAllocationDocument.Pool max",
		"engine/billing/internal/catalogs CreditsDocument.Pool max",
	},
	"engine/billing/internal/catalogs MaxDenominationCharacters": {
		"engine/billing CreatePool.Denomination max",
		"engine/billing/internal/catalogs CreditAllocationDocument.Denomination max",
	},
	"engine/billing/internal/catalogs MaxNoteCharacters": {
		"engine/billing/internal/credits TransactionView.Note max", "server/admin maxNote",
		"engine/billing DeductCredits.Note max", "engine/billing ReverseTransaction.Note max",
	},
	"engine/billing/internal/catalogs MaxCreditPriority": {"server/admin maxPriority"},
	"engine/billing/internal/catalogs maxIntervalMonths": {
		"engine/billing/internal/catalogs PlanDocument.IntervalMonths max",
	},
	"engine/workspace MaxPurchaseRuns":  {"engine/workspace RequestPurchase.Runs max"},
	"engine/workspace MaxScheduleHours": {"engine/workspace FlowView.EveryHours max"},
	"engine/workspace maxAlertReason":   {"server/workspaceapi maxAlertReason"},
	"server/admin maxMember":            {"server/admin MemberChange.ID max"},
	"server/admin maxLabel": {
		"server/admin madeKey.Label max", "engine/billing KeyView.Label max",
	},
	"server/client maxID": {
		"server/admin maxID", "engine/billing RecordUsage.Customer max",
		"engine/billing CreateCustomer.ExternalID max", "server/client customerRequest.Alias max",
	},
	"server/client maxKey": {
		"server/admin maxEventKey", "engine/billing RecordUsage.KeyText max",
		"server/client reservationRequest.Key max", "server/client reservationSettlement.EventKey max",
	},
	"server/link MinMinutes": {"server/client portalLinkRequest.ExpiresInMinutes min"},
	"server/link MaxMinutes": {
		"server/client portalLinkRequest.ExpiresInMinutes max", "cmd/tollgate/cli portalLinkFlags.Minutes help",
	},
	"server/workspaceapi maxLabel": {"server/workspaceapi signupRequest.Label max"},
}

// TestBoundsAgree: what states a bound again states the same number.
func TestBoundsAgree(t *testing.T) {
	scopes := map[string]*types.Scope{}
	for _, p := range checkedPackages(t) {
		scopes[p.folder] = p.types.Scope()
	}
	find := func(place string) types.Object {
		folder, name, _ := strings.Cut(place, " ")
		name, _, _ = strings.Cut(name, ".")
		require.NotNil(t, scopes[folder], place)
		found := scopes[folder].Lookup(name)
		require.NotNil(t, found, place)
		return found
	}
	valueOf := func(place string) int64 {
		c, is := find(place).(*types.Const)
		require.True(t, is, place)
		value, exact := constant.Int64Val(constant.ToInt(c.Val()))
		require.True(t, exact, place)
		return value
	}
	for bound, places := range bounds {
		value := valueOf(bound)
		for _, place := range places {
			words := strings.Fields(place)
			if len(words) == 2 {
				require.Equal(t, value, valueOf(place), "%s is %s", place, bound)
				continue
			}
			want := value
			if len(words) > 3 {
				factor, err := strconv.ParseInt(words[3], 10, 64)
				require.NoError(t, err)
				require.Zero(t, value%factor, place)
				want /= factor
			}
			_, field, _ := strings.Cut(words[1], ".")
			require.True(t, states(t, find(place).Type(), field, words[2], want), "%s is %s, %d", place, bound, want)
		}
	}
}

// states reports whether the tags of a field have a number: in a rule, or as a word of its help.
func states(t *testing.T, of types.Type, name, where string, want int64) bool {
	s, is := of.Underlying().(*types.Struct)
	require.True(t, is, of)
	for i := range s.NumFields() {
		if s.Field(i).Name() != name {
			continue
		}
		text := reflect.StructTag(s.Tag(i))
		tag, err := schema.Parse(text)
		require.NoError(t, err)
		switch where {
		case "max":
			return int64(tag.Max) == want
		case "min":
			return int64(tag.Min) == want
		case "help":
			help := strings.ReplaceAll(text.Get("help"), ",", "")
			return regexp.MustCompile(fmt.Sprintf(`\b%d\b`, want)).MatchString(help)
		}
	}
	require.Fail(t, "no such field", "%s.%s %s", of, name, where)
	return false
}
