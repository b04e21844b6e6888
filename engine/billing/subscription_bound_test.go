package billing_test

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/engine/billing"
)

// TestTagsHaveTheBoundOfGracePeriods: what the API takes and shows is what the engine takes.
func TestTagsHaveTheBoundOfGracePeriods(t *testing.T) {
	for _, of := range []any{billing.CreateSubscription{}, billing.SubscriptionView{}} {
		field, found := reflect.TypeOf(of).FieldByName("GraceDays")
		require.True(t, found)
		rule, _ := field.Tag.Lookup("rule")
		require.Contains(t, rule, fmt.Sprintf("max=%d", billing.MaxGraceDays))
	}
}
