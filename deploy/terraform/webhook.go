package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/setplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"

	api "tollgate/sdk/go"
)

// webhookEndpoint is where the environment's webhooks go.
type webhookEndpoint struct{ configured }

var (
	_ resource.ResourceWithConfigure   = (*webhookEndpoint)(nil)
	_ resource.ResourceWithImportState = (*webhookEndpoint)(nil)
)

type webhookState struct {
	ID          types.String `tfsdk:"id"`
	URL         types.String `tfsdk:"url"`
	Events      types.Set    `tfsdk:"events"`
	Description types.String `tfsdk:"description"`
	Enabled     types.Bool   `tfsdk:"enabled"`
	Secret      types.String `tfsdk:"secret"`
}

// Metadata implements resource.Resource.
func (*webhookEndpoint) Metadata(
	_ context.Context, _ resource.MetadataRequest, to *resource.MetadataResponse,
) {
	to.TypeName = "tollgate_webhook_endpoint"
}

// Schema implements resource.Resource.
func (*webhookEndpoint) Schema(
	_ context.Context, _ resource.SchemaRequest, to *resource.SchemaResponse,
) {
	to.Schema = schema.Schema{
		Description: "An endpoint to which webhooks are sent.",
		Attributes: map[string]schema.Attribute{
			"id": schema.StringAttribute{
				Computed:      true,
				PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
			},
			"url": schema.StringAttribute{Required: true, Description: "Where messages are sent."},
			"events": schema.SetAttribute{
				ElementType: types.StringType, Optional: true, Computed: true,
				Description: "Names of events; [] is all, as at first where it is left out; later it is " +
					"what it was.",
				PlanModifiers: []planmodifier.Set{
					setplanmodifier.UseStateForUnknown(),
				},
			},
			"description": schema.StringAttribute{Optional: true},
			"enabled": schema.BoolAttribute{
				Optional: true, Computed: true, Default: booldefault.StaticBool(true),
				Description: "An endpoint that fails for days is disabled: the next apply enables it.",
			},
			"secret": schema.StringAttribute{
				Computed: true, Sensitive: true,
				Description: "What messages are signed with. It is known where this resource created the " +
					"endpoint, and not where it was imported.",
				PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
			},
		},
	}
}

func (w *webhookEndpoint) one(id types.String) string {
	return w.at + "/webhook-endpoints/" + url.PathEscape(id.ValueString())
}

// request is what a plan says of an endpoint.
func (s *webhookState) request(ctx context.Context, say *diag.Diagnostics) map[string]any {
	r := map[string]any{"url": s.URL.ValueString(), "description": s.Description.ValueString()}
	if !s.Events.IsUnknown() && !s.Events.IsNull() {
		var events []string
		say.Append(s.Events.ElementsAs(ctx, &events, false)...)
		r["events"] = events
	}
	return r
}

// take takes what the API answers.
func (s *webhookState) take(ctx context.Context, v *api.WebhookEndpoint) (say diag.Diagnostics) {
	s.ID, s.URL = types.StringValue(v.ID), types.StringValue(v.URL)
	s.Events, say = types.SetValueFrom(ctx, types.StringType, v.Events)
	s.Enabled = types.BoolValue(v.Enabled)
	if v.Description != "" || s.Description.ValueString() != "" {
		s.Description = types.StringValue(v.Description)
	}
	if v.Secret != "" {
		s.Secret = types.StringValue(v.Secret)
	} else if s.Secret.IsUnknown() {
		s.Secret = types.StringNull()
	}
	return say
}

// Create implements resource.Resource.
func (w *webhookEndpoint) Create(
	ctx context.Context, from resource.CreateRequest, to *resource.CreateResponse,
) {
	var s webhookState
	to.Diagnostics.Append(from.Plan.Get(ctx, &s)...)
	admin := w.operations(&to.Diagnostics)
	if to.Diagnostics.HasError() {
		return
	}
	enabled := s.Enabled.ValueBool()
	body, err := json.Marshal(s.request(ctx, &to.Diagnostics))
	var made api.WebhookEndpoint
	if err == nil {
		var a api.Answer
		a, err = admin.Do(ctx, api.Request{
			Method: "POST", Path: w.at + "/webhook-endpoints", Body: body, Header: once(),
		})
		if err == nil {
			err = a.Err()
		}
		if err == nil {
			err = a.Data(&made)
		}
	}
	if err != nil {
		refused(&to.Diagnostics, "The endpoint was not added", err)
		return
	}
	to.Diagnostics.Append(s.take(ctx, &made)...)
	to.Diagnostics.Append(to.State.Set(ctx, &s)...)
	if !enabled {
		w.patch(ctx, admin, &s, map[string]any{"enabled": false}, &to.Diagnostics)
		to.Diagnostics.Append(to.State.Set(ctx, &s)...)
	}
}

// patch changes an endpoint.
func (w *webhookEndpoint) patch(
	ctx context.Context, admin *api.Client, s *webhookState, change map[string]any,
	say *diag.Diagnostics,
) {
	var v api.WebhookEndpoint
	if _, err := admin.Call(ctx, "PATCH", w.one(s.ID), change, &v); err != nil {
		refused(say, "The endpoint was not changed", err)
		return
	}
	say.Append(s.take(ctx, &v)...)
}

// Update implements resource.Resource.
func (w *webhookEndpoint) Update(
	ctx context.Context, from resource.UpdateRequest, to *resource.UpdateResponse,
) {
	var s webhookState
	to.Diagnostics.Append(from.Plan.Get(ctx, &s)...)
	admin := w.operations(&to.Diagnostics)
	if to.Diagnostics.HasError() {
		return
	}
	change := s.request(ctx, &to.Diagnostics)
	change["enabled"] = s.Enabled.ValueBool()
	if w.patch(ctx, admin, &s, change, &to.Diagnostics); !to.Diagnostics.HasError() {
		to.Diagnostics.Append(to.State.Set(ctx, &s)...)
	}
}

// Read implements resource.Resource.
func (w *webhookEndpoint) Read(
	ctx context.Context, from resource.ReadRequest, to *resource.ReadResponse,
) {
	var s webhookState
	to.Diagnostics.Append(from.State.Get(ctx, &s)...)
	admin := w.operations(&to.Diagnostics)
	if to.Diagnostics.HasError() {
		return
	}
	var v api.WebhookEndpoint
	_, err := admin.Call(ctx, "GET", w.one(s.ID), nil, &v)
	switch {
	case api.IsStatus(err, http.StatusNotFound):
		to.State.RemoveResource(ctx)
	case err != nil:
		refused(&to.Diagnostics, "The endpoint cannot be read", err)
	default:
		to.Diagnostics.Append(s.take(ctx, &v)...)
		to.Diagnostics.Append(to.State.Set(ctx, &s)...)
	}
}

// Delete implements resource.Resource: what waits for the endpoint and its log go with it.
func (w *webhookEndpoint) Delete(
	ctx context.Context, from resource.DeleteRequest, to *resource.DeleteResponse,
) {
	var s webhookState
	to.Diagnostics.Append(from.State.Get(ctx, &s)...)
	admin := w.operations(&to.Diagnostics)
	if to.Diagnostics.HasError() {
		return
	}
	_, err := admin.Call(ctx, "DELETE", w.one(s.ID), nil, nil)
	if err != nil && !api.IsStatus(err, http.StatusNotFound) {
		refused(&to.Diagnostics, "The endpoint was not removed", err)
	}
}

// ImportState implements resource.ResourceWithImportState.
func (w *webhookEndpoint) ImportState(
	ctx context.Context, from resource.ImportStateRequest, to *resource.ImportStateResponse,
) {
	resource.ImportStatePassthroughID(ctx, path.Root("id"), from, to)
}
