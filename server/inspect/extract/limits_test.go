package extract

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/server/inspect/document"
)

// TestLimitsOfOneKindAreBounded: so many of each are listed, and the last one counts the others,
// those that were said twice included.
func TestLimitsOfOneKindAreBounded(t *testing.T) {
	var list, want []document.Limit
	for i := range maxLimits + 5 {
		one := document.Limit{Code: "many", Reason: fmt.Sprintf("Of %d.", i)}
		list = append(list, one, document.Limit{Code: "few", Reason: "Of all."})
		if i < maxLimits {
			want = append(want, one)
		}
	}
	list = append(list, list[len(list)-2])
	want = append(want[:1], append([]document.Limit{
		{Code: "few", Reason: fmt.Sprintf("Of all. (%d times)", maxLimits+5)},
	}, want[1:]...)...)
	want = append(want, document.Limit{
		Code: "many", Reason: "The same holds 6 more times, which are not listed.",
	})
	require.Equal(t, want, once(list))
	require.Empty(t, once(nil))
}
