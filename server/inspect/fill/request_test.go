package fill

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBodiesThatAreNotSent: too large, in any form; and of a type that nobody can fill.
func TestBodiesThatAreNotSent(t *testing.T) {
	long := strings.Repeat("x", maxBody)
	for name, r := range map[string]*Request{
		"JSON":          {Media: "application/json", Body: map[string]any{"a": long}},
		"a form":        {Media: "application/x-www-form-urlencoded", Body: map[string]any{"a": long}},
		"a deep form":   {Media: "application/x-www-form-urlencoded", Body: map[string]any{"a": map[string]any{}}},
		"XML":           {Media: "application/xml", Body: map[string]any{}},
		"a second line": {Media: "application/json\r\nX: y", Body: map[string]any{}},
	} {
		_, _, why := r.Encoded()
		require.NotNil(t, why, name)
		require.Equal(t, "body_not_fillable", why.Rule, name)
	}
	for range 20 { // of two that have no place the same is named each time
		deep := map[string]any{"b": map[string]any{}, "a": map[string]any{}}
		_, _, why := (&Request{Media: "application/x-www-form-urlencoded", Body: deep}).Encoded()
		require.Contains(t, why.Reason, `"a"`)
	}
	r := &Request{Media: "application/vnd.api+json", Body: map[string]any{"a": 1}}
	body, media, why := r.Encoded()
	require.Nil(t, why)
	require.Equal(t, `application/vnd.api+json {"a":1}`, media+" "+string(body))
}
