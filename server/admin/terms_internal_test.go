package admin

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/engine/billing"
)

// TestTagsHaveTheBoundsOfPaymentTerms: the answer's schema is what the engine takes.
func TestTagsHaveTheBoundsOfPaymentTerms(t *testing.T) {
	t.Parallel()
	answer := reflect.TypeFor[termsAnswer]()
	for name, bound := range map[string]int{
		"Days": billing.MaxPaymentTermDays, "SettleMinutes": billing.MaxSettleMinutes,
	} {
		field, _ := answer.FieldByName(name)
		require.Equal(t, fmt.Sprintf("max=%d", bound), field.Tag.Get("rule"), name)
	}
}
