package main

import (
	"math/big"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"github.com/stretchr/testify/require"
)

// core does to the provider what Terraform does, over the same protocol.
type core struct {
	t      *testing.T
	server tfprotov6.ProviderServer
	schema *tfprotov6.GetProviderSchemaResponse
	warned string // by the last call
}

// block is what a configuration says, or a state: attributes that it does not name are null.
type block map[string]any

func newCore(t *testing.T, settings block) *core {
	t.Helper()
	c, say := tryCore(t, settings)
	require.Empty(t, say)
	return c
}

func tryCore(t *testing.T, settings block) (*core, string) {
	t.Helper()
	server := providerserver.NewProtocol6(newProvider())()
	schema, err := server.GetProviderSchema(t.Context(), &tfprotov6.GetProviderSchemaRequest{})
	require.NoError(t, err)
	c := &core{t: t, server: server, schema: schema}
	require.Empty(t, c.said(schema.Diagnostics))
	configured, err := server.ConfigureProvider(t.Context(), &tfprotov6.ConfigureProviderRequest{
		Config: c.dynamic(schema.Provider, settings),
	})
	require.NoError(t, err)
	return c, c.said(configured.Diagnostics)
}

// said returns the errors, and keeps the warnings.
func (c *core) said(all []*tfprotov6.Diagnostic) string {
	var failed, warned []string
	for _, d := range all {
		text := d.Summary + ": " + d.Detail
		if d.Severity == tfprotov6.DiagnosticSeverityError {
			failed = append(failed, text)
		} else {
			warned = append(warned, text)
		}
	}
	c.warned = strings.Join(warned, "\n")
	return strings.Join(failed, "\n")
}

func (c *core) dynamic(s *tfprotov6.Schema, v block) *tfprotov6.DynamicValue {
	c.t.Helper()
	kind := s.ValueType()
	d, err := tfprotov6.NewDynamicValue(kind, toValue(kind, v))
	require.NoError(c.t, err)
	return &d
}

func (c *core) block(s *tfprotov6.Schema, d *tfprotov6.DynamicValue) block {
	c.t.Helper()
	v, err := d.Unmarshal(s.ValueType())
	require.NoError(c.t, err)
	b, _ := fromValue(c.t, v).(block)
	return b
}

// unknown is a value that Terraform knows only after apply.
type unknown struct{}

func toValue(kind tftypes.Type, v any) tftypes.Value {
	if _, is := v.(unknown); is {
		return tftypes.NewValue(kind, tftypes.UnknownValue)
	}
	list := func(each tftypes.Type) tftypes.Value {
		items, ok := v.([]any)
		if !ok {
			return tftypes.NewValue(kind, nil)
		}
		all := []tftypes.Value{}
		for _, item := range items {
			all = append(all, toValue(each, item))
		}
		return tftypes.NewValue(kind, all)
	}
	switch k := kind.(type) {
	case tftypes.Object:
		fields, ok := v.(block)
		if !ok || fields == nil {
			return tftypes.NewValue(kind, nil)
		}
		all := map[string]tftypes.Value{}
		for name, each := range k.AttributeTypes {
			all[name] = toValue(each, fields[name])
		}
		return tftypes.NewValue(kind, all)
	case tftypes.List:
		return list(k.ElementType)
	case tftypes.Set:
		return list(k.ElementType)
	}
	if n, ok := v.(int); ok {
		return tftypes.NewValue(kind, big.NewFloat(float64(n)))
	}
	return tftypes.NewValue(kind, v)
}

// fromValue is the other way; nulls are left out.
func fromValue(t *testing.T, v tftypes.Value) any {
	switch {
	case !v.IsKnown():
		return unknown{}
	case v.IsNull():
		return nil
	case v.Type().Is(tftypes.String):
		var s string
		require.NoError(t, v.As(&s))
		return s
	case v.Type().Is(tftypes.Bool):
		var b bool
		require.NoError(t, v.As(&b))
		return b
	case v.Type().Is(tftypes.Number):
		var n big.Float
		require.NoError(t, v.As(&n))
		i, _ := n.Int64()
		return int(i)
	case v.Type().Is(tftypes.Object{}):
		var fields map[string]tftypes.Value
		require.NoError(t, v.As(&fields))
		b := block{}
		for name, each := range fields {
			if value := fromValue(t, each); value != nil {
				b[name] = value
			}
		}
		return b
	}
	var items []tftypes.Value
	require.NoError(t, v.As(&items))
	all := []any{}
	for _, item := range items {
		all = append(all, fromValue(t, item))
	}
	return all
}

// plan plans to make what is there (nil: nothing) what a configuration says (nil: nothing).
func (c *core) plan(kind string, state, config block) (
	planned block, replaces bool, private []byte, say string,
) {
	c.t.Helper()
	s := c.schema.ResourceSchemas[kind]
	// What the configuration leaves to the provider is proposed as it is.
	proposed := block(nil)
	if config != nil {
		proposed = block{}
		for _, a := range s.Block.Attributes {
			if value, named := config[a.Name]; named {
				proposed[a.Name] = value
			} else if a.Computed {
				proposed[a.Name] = state[a.Name]
			}
		}
	}
	answer, err := c.server.PlanResourceChange(c.t.Context(), &tfprotov6.PlanResourceChangeRequest{
		TypeName: kind, PriorState: c.dynamic(s, state), ProposedNewState: c.dynamic(s, proposed),
		Config: c.dynamic(s, config),
	})
	require.NoError(c.t, err)
	if say = c.said(answer.Diagnostics); say != "" {
		return nil, false, nil, say
	}
	return c.block(s, answer.PlannedState), len(answer.RequiresReplace) > 0, answer.PlannedPrivate, ""
}

// try plans and applies; an error is what was said.
func (c *core) try(kind string, state, config block) (block, string) {
	c.t.Helper()
	s := c.schema.ResourceSchemas[kind]
	if config != nil {
		checked, err := c.server.ValidateResourceConfig(c.t.Context(),
			&tfprotov6.ValidateResourceConfigRequest{TypeName: kind, Config: c.dynamic(s, config)})
		require.NoError(c.t, err)
		require.Empty(c.t, c.said(checked.Diagnostics))
	}
	planned, _, private, say := c.plan(kind, state, config)
	if say != "" {
		return state, say
	}
	answer, err := c.server.ApplyResourceChange(c.t.Context(), &tfprotov6.ApplyResourceChangeRequest{
		TypeName: kind, PriorState: c.dynamic(s, state), PlannedState: c.dynamic(s, planned),
		Config: c.dynamic(s, config), PlannedPrivate: private,
	})
	require.NoError(c.t, err)
	say = c.said(answer.Diagnostics)
	after := c.block(s, answer.NewState)
	if say == "" {
		for name, value := range planned { // Terraform refuses a provider that does otherwise
			if value != any(unknown{}) {
				require.Equal(c.t, value, after[name], "%s: %s was planned otherwise", kind, name)
			}
		}
	}
	return after, say
}

func (c *core) apply(kind string, state, config block) block {
	c.t.Helper()
	after, say := c.try(kind, state, config)
	require.Empty(c.t, say)
	c.unchanged(kind, after, config)
	return after
}

// unchanged: what was read again needs no change.
func (c *core) unchanged(kind string, state, config block) {
	c.t.Helper()
	warned := c.warned
	defer func() { c.warned = warned }()
	read := c.read(kind, state)
	require.Equal(c.t, state, read, "read again")
	if config == nil {
		return
	}
	planned, _, _, say := c.plan(kind, read, config)
	require.Empty(c.t, say)
	require.Equal(c.t, read, planned, "a plan without a change")
}

// read is the state as it is; nil if it is gone.
func (c *core) read(kind string, state block) block {
	c.t.Helper()
	s := c.schema.ResourceSchemas[kind]
	answer, err := c.server.ReadResource(c.t.Context(), &tfprotov6.ReadResourceRequest{
		TypeName: kind, CurrentState: c.dynamic(s, state),
	})
	require.NoError(c.t, err)
	require.Empty(c.t, c.said(answer.Diagnostics))
	return c.block(s, answer.NewState)
}

// bring imports what is there, and reads it.
func (c *core) bring(kind, id string) block {
	c.t.Helper()
	answer, err := c.server.ImportResourceState(c.t.Context(),
		&tfprotov6.ImportResourceStateRequest{TypeName: kind, ID: id})
	require.NoError(c.t, err)
	require.Empty(c.t, c.said(answer.Diagnostics))
	require.Len(c.t, answer.ImportedResources, 1)
	return c.read(kind, c.block(c.schema.ResourceSchemas[kind], answer.ImportedResources[0].State))
}

// look reads a data source.
func (c *core) look(kind string, config block) (block, string) {
	c.t.Helper()
	s := c.schema.DataSourceSchemas[kind]
	answer, err := c.server.ReadDataSource(c.t.Context(), &tfprotov6.ReadDataSourceRequest{
		TypeName: kind, Config: c.dynamic(s, config),
	})
	require.NoError(c.t, err)
	if say := c.said(answer.Diagnostics); say != "" {
		return nil, say
	}
	return c.block(s, answer.State), ""
}

// sensitive are the attributes of a resource that are hidden where a plan is shown.
func (c *core) sensitive(s *tfprotov6.Schema) (names []string) {
	for _, a := range s.Block.Attributes {
		if a.Sensitive {
			names = append(names, a.Name)
		}
	}
	return names
}
