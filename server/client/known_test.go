package client_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	tollgate "tollgate/sdk/go"
)

// known are the types of sdk/go that the answers of operations have; nil: they have no data, or the
// client has no type for it.
var known = map[string]any{
	"archiveBudget":               &tollgate.Budget{},
	"archiveCustomer":             nil,
	"cancelScheduledPlanChange":   nil,
	"cancelSubscription":          nil,
	"changeSubscriptionPlan":      nil,
	"checkEntitlement":            &tollgate.Decision{},
	"createCheckoutSession":       nil,
	"createCustomer":              nil,
	"createPortalLink":            &tollgate.PortalLink{},
	"createSubscription":          &tollgate.Created{},
	"describe":                    nil,
	"evaluateEntitlement":         &tollgate.Decision{},
	"evaluateEntitlements":        &[]tollgate.Decision{},
	"extendReservation":           &tollgate.Reservation{},
	"freezeBudget":                &tollgate.Budget{},
	"getBudget":                   &tollgate.Budget{},
	"getClock":                    nil,
	"getCustomer":                 &tollgate.Customer{},
	"getCustomerInvoice":          &tollgate.Invoice{},
	"getReservation":              &tollgate.Reservation{},
	"getSubscription":             &tollgate.Subscription{},
	"getTopUp":                    &tollgate.TopUp{},
	"getUpcomingInvoice":          &tollgate.Invoice{},
	"getUsage":                    &tollgate.UsageReport{},
	"ingestEvent":                 &tollgate.EventResult{},
	"ingestEventBatch":            &tollgate.BatchResult{},
	"listCustomerEvents":          &pageOf{},
	"listCustomerInvoices":        &[]tollgate.Invoice{},
	"listCustomerSubscriptions":   &[]tollgate.Subscription{},
	"listEntitlements":            &[]tollgate.Entitlement{},
	"listEvents":                  &pageOf{},
	"listPlanChanges":             &[]tollgate.ScheduledChange{},
	"listPlans":                   &[]tollgate.Plan{},
	"listReservations":            &pageOf{},
	"listBudgets":                 &pageOf{},
	"listBudgetWindows":           &pageOf{},
	"markInvoicePaid":             nil,
	"moveBudget":                  &tollgate.Budget{},
	"previewCorrection":           &tollgate.CorrectionPreview{},
	"putBudget":                   &tollgate.Budget{},
	"releaseReservation":          &tollgate.Reservation{},
	"reserve":                     &tollgate.Reservation{},
	"revertScheduledCancellation": nil,
	"revokePortalLinks":           nil,
	"search":                      &tollgate.SearchAnswer{},
	"setTopUp":                    nil,
	"settleReservation":           &tollgate.Reservation{},
	"stopTopUp":                   nil,
	"unfreezeBudget":              &tollgate.Budget{},
	"updateCustomer":              nil,
	"voidEvent":                   nil,
	"amendEvent":                  nil,
}

// pageOf is a page of a list.
type pageOf struct {
	Events       []tollgate.Event          `json:"events"`
	Reservations []tollgate.Reservation    `json:"reservations"`
	Budgets      []tollgate.Budget         `json:"budgets"`
	Windows      [][]tollgate.BudgetWindow `json:"windows"`
	NewestCursor string                    `json:"newestCursor"`
	NextCursor   string                    `json:"nextCursor"`
}

// requireKnown fails where an answer has a field that the type of sdk/go lacks, which a user of
// the client would never see.
func requireKnown(t testing.TB, operation string, answer []byte) {
	t.Helper()
	strict := func(text json.RawMessage, v any) {
		t.Helper()
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		require.NoError(t, d.Decode(v), "sdk/go of %s: %s", operation, answer)
	}
	of, listed := known[operation]
	require.True(t, listed, "which type of sdk/go has the answer of %s?", operation)
	var envelope struct{ Data, Error json.RawMessage }
	require.NoError(t, json.Unmarshal(answer, &envelope))
	if envelope.Error != nil {
		strict(envelope.Error, &tollgate.Error{})
	}
	if of != nil && envelope.Data != nil {
		strict(envelope.Data, reflect.New(reflect.TypeOf(of).Elem()).Interface())
	}
}
