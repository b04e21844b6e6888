package demo_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"tollgate/cmd/tollgate/demo"
)

func TestOnlyKeepsAPlanAndItsFeatures(t *testing.T) {
	catalog, err := demo.Parse(demo.Catalog)
	require.NoError(t, err)
	require.Len(t, catalog.Plans, 4)
	only, err := catalog.Only(demo.ReplayPlan)
	require.NoError(t, err)
	require.Len(t, only.Plans, 1)
	require.Len(t, only.Features, 3)
	_, err = catalog.Only("nothing")
	require.ErrorContains(t, err, "no plan")

	bare, err := demo.Parse([]byte("plans: [{key: a, features: [{key: f}]}]"))
	require.NoError(t, err)
	only, err = bare.Only("a")
	require.NoError(t, err)
	require.Equal(t, []map[string]any{{"key": "f", "name": "f"}}, only.Features)
}

// The plan that a trace is metered with is the one that the expected counters were computed with.
func TestReplayPlanIsTheExpectedOne(t *testing.T) {
	text, err := os.ReadFile(
		"../../../../shared/data/azure-llm-inference-2023-code.expected.json")
	if errors.Is(err, fs.ErrNotExist) && os.Getenv("CI") != "true" {
		t.Log("../shared/data is absent: nothing to compare the plan with")
		return
	}
	require.NoError(t, err)
	var expected struct {
		Plan map[string]any `json:"plan"`
	}
	require.NoError(t, json.Unmarshal(text, &expected))
	catalog, err := demo.Parse(demo.Catalog)
	require.NoError(t, err)
	only, err := catalog.Only(demo.ReplayPlan)
	require.NoError(t, err)

	written, err := only.YAML()
	require.NoError(t, err)
	var read demo.Document
	require.NoError(t, yaml.Unmarshal(written, &read))
	ours, err := json.Marshal(read.Plans[0])
	require.NoError(t, err)
	theirs, err := json.Marshal(expected.Plan)
	require.NoError(t, err)
	require.JSONEq(t, string(theirs), string(ours))
}
