package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"

	api "tollgate/sdk/go"
)

// catalog is the environment's catalog: features and plans, as the document that
// `tollgate catalog apply` takes.
type catalog struct{ configured }

var (
	_ resource.ResourceWithConfigure   = (*catalog)(nil)
	_ resource.ResourceWithImportState = (*catalog)(nil)
)

type catalogState struct {
	ID       types.String `tfsdk:"id"`
	Document types.String `tfsdk:"document"`
	Prune    types.Bool   `tfsdk:"prune"`
}

// Metadata implements resource.Resource.
func (*catalog) Metadata(
	_ context.Context, _ resource.MetadataRequest, to *resource.MetadataResponse,
) {
	to.TypeName = "tollgate_catalog"
}

// Schema implements resource.Resource.
func (*catalog) Schema(_ context.Context, _ resource.SchemaRequest, to *resource.SchemaResponse) {
	to.Schema = schema.Schema{
		Description: "Features and plans of the environment. It has one catalog: have one resource.",
		Attributes: map[string]schema.Attribute{
			"id": schema.StringAttribute{
				Computed: true, Description: "ACCOUNT/ENVIRONMENT.",
				PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
			},
			"document": schema.StringAttribute{
				Required: true,
				Description: "The catalog, YAML or JSON. If applying it would change something, the " +
					"catalog was changed elsewhere; the state then holds the current catalog.",
			},
			"prune": schema.BoolAttribute{
				Optional: true, Computed: true, Default: booldefault.StaticBool(false),
				Description: "Archive features and plans that the document does not name.",
			},
		},
	}
}

// put applies a document, or with dryRun only says how many changes that would be.
func (c *catalog) put(
	ctx context.Context, admin *api.Client, document string, prune, dryRun bool,
) (changes int, err error) {
	a, err := admin.Do(ctx, api.Request{
		Method: "PUT", Body: []byte(document), ContentType: "application/yaml",
		Path: c.at + "/catalog?prune=" + strconv.FormatBool(prune) +
			"&dryRun=" + strconv.FormatBool(dryRun),
	})
	if err == nil {
		err = a.Err()
	}
	var out struct {
		Changes []json.RawMessage `json:"changes"`
	}
	if err == nil {
		err = a.Data(&out)
	}
	return len(out.Changes), err
}

func (c *catalog) apply(ctx context.Context, s *catalogState, say *diag.Diagnostics) {
	admin := c.operations(say)
	if admin == nil {
		return
	}
	s.ID = types.StringValue(c.id)
	_, err := c.put(ctx, admin, s.Document.ValueString(), s.Prune.ValueBool(), false)
	if err != nil {
		refused(say, "The catalog was not applied: nothing of it was changed", err)
	}
}

// Create implements resource.Resource.
func (c *catalog) Create(
	ctx context.Context, from resource.CreateRequest, to *resource.CreateResponse,
) {
	var s catalogState
	if to.Diagnostics.Append(from.Plan.Get(ctx, &s)...); to.Diagnostics.HasError() {
		return
	}
	if c.apply(ctx, &s, &to.Diagnostics); !to.Diagnostics.HasError() {
		to.Diagnostics.Append(to.State.Set(ctx, &s)...)
	}
}

// Update implements resource.Resource.
func (c *catalog) Update(
	ctx context.Context, from resource.UpdateRequest, to *resource.UpdateResponse,
) {
	var s catalogState
	if to.Diagnostics.Append(from.Plan.Get(ctx, &s)...); to.Diagnostics.HasError() {
		return
	}
	if c.apply(ctx, &s, &to.Diagnostics); !to.Diagnostics.HasError() {
		to.Diagnostics.Append(to.State.Set(ctx, &s)...)
	}
}

// Read implements resource.Resource: the API itself reports whether the document is what is there.
func (c *catalog) Read(ctx context.Context, from resource.ReadRequest, to *resource.ReadResponse) {
	var s catalogState
	if to.Diagnostics.Append(from.State.Get(ctx, &s)...); to.Diagnostics.HasError() {
		return
	}
	admin := c.operations(&to.Diagnostics)
	if admin == nil {
		return
	}
	changes := 1
	if !s.Document.IsNull() { // it is imported
		var err error
		changes, err = c.put(ctx, admin, s.Document.ValueString(), s.Prune.ValueBool(), true)
		switch {
		case api.IsStatus(err, http.StatusNotFound):
			to.State.RemoveResource(ctx)
			return
		case api.IsStatus(err, http.StatusBadRequest), api.IsStatus(err, http.StatusConflict),
			api.IsStatus(err, http.StatusUnprocessableEntity):
			changes = 1 // what was applied once cannot be applied to what is there
		case err != nil:
			refused(&to.Diagnostics, "The catalog cannot be compared", err)
			return
		}
	}
	if changes > 0 {
		a, err := admin.Call(ctx, "GET", c.at+"/catalog", nil, nil)
		var text bytes.Buffer
		if err == nil {
			err = json.Indent(&text, a.Payload(), "", "  ")
		}
		if err != nil {
			refused(&to.Diagnostics, "The catalog cannot be read", err)
			return
		}
		s.Document = types.StringValue(text.String())
	}
	if s.ID = types.StringValue(c.id); s.Prune.IsNull() {
		s.Prune = types.BoolValue(false)
	}
	to.Diagnostics.Append(to.State.Set(ctx, &s)...)
}

// Delete implements resource.Resource.
func (c *catalog) Delete(
	ctx context.Context, from resource.DeleteRequest, to *resource.DeleteResponse,
) {
	var s catalogState
	if to.Diagnostics.Append(from.State.Get(ctx, &s)...); to.Diagnostics.HasError() {
		return
	}
	admin := c.operations(&to.Diagnostics)
	if admin == nil {
		return
	}
	if !s.Prune.ValueBool() {
		to.Diagnostics.AddWarning("The catalog stays",
			"Features and plans are never deleted, and without prune none is archived: the catalog of "+
				c.id+" is as it was.")
		return
	}
	if _, err := c.put(ctx, admin, `{"features": [], "plans": []}`, true, false); err != nil {
		refused(&to.Diagnostics, "The catalog was not archived", err)
		return
	}
	to.Diagnostics.AddWarning("The catalog is archived",
		"Features and plans are never deleted. Those of "+c.id+" are archived: no customer can subscribe to "+
			"them, and subscriptions that there are go on.")
}

// ImportState implements resource.ResourceWithImportState.
func (c *catalog) ImportState(
	ctx context.Context, from resource.ImportStateRequest, to *resource.ImportStateResponse,
) {
	if from.ID != c.id {
		to.Diagnostics.AddError("Another environment",
			"Import it as "+c.id+": that is the one of the provider.")
		return
	}
	to.Diagnostics.Append(to.State.SetAttribute(ctx, path.Root("id"), from.ID)...)
}
