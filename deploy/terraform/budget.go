package main

import (
	"context"
	"encoding/json"
	"errors"
	"math/big"
	"net/http"

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

// budget is a budget with its limits and its place in the tree.
type budget struct{ configured }

var (
	_ resource.ResourceWithConfigure   = (*budget)(nil)
	_ resource.ResourceWithImportState = (*budget)(nil)
)

type budgetState struct {
	Key      types.String `tfsdk:"key"`
	Name     types.String `tfsdk:"name"`
	Parent   types.String `tfsdk:"parent"`
	Customer types.String `tfsdk:"customer"`
	Frozen   types.Bool   `tfsdk:"frozen"`
	Limits   []limitState `tfsdk:"limits"`
}

type limitState struct {
	Of         types.String `tfsdk:"of"`
	Feature    types.String `tfsdk:"feature"`
	Currency   types.String `tfsdk:"currency"`
	Limit      types.String `tfsdk:"limit"`
	Window     types.String `tfsdk:"window"`
	TimeZone   types.String `tfsdk:"time_zone"`
	Mode       types.String `tfsdk:"mode"`
	Thresholds []int        `tfsdk:"thresholds"`
}

// Metadata implements resource.Resource.
func (*budget) Metadata(
	_ context.Context, _ resource.MetadataRequest, to *resource.MetadataResponse,
) {
	to.TypeName = "tollgate_budget"
}

// Schema implements resource.Resource.
func (*budget) Schema(_ context.Context, _ resource.SchemaRequest, to *resource.SchemaResponse) {
	text := func(about string) schema.StringAttribute {
		return schema.StringAttribute{Optional: true, Description: about}
	}
	to.Schema = schema.Schema{
		Description: "A budget. A destroyed one is archived, with all below it; its key stays taken.",
		Attributes: map[string]schema.Attribute{
			"key": schema.StringAttribute{
				Required:      true,
				PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
			},
			"name":     schema.StringAttribute{Required: true},
			"parent":   text("The key of the budget above."),
			"customer": text("externalClientCustomerId of the customer whose own budget it is."),
			"frozen": schema.BoolAttribute{
				Optional: true, Computed: true, Default: booldefault.StaticBool(false),
				Description: "It, and all below it, takes no usage.",
			},
			"limits": schema.ListNestedAttribute{
				Optional: true,
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"of":        schema.StringAttribute{Required: true, Description: "units or price."},
					"feature":   text("The key of the feature whose usage counts, of units always; left out: of all."),
					"currency":  text("That of a price; USD where it is left out."),
					"limit":     schema.StringAttribute{Required: true, Description: "A decimal."},
					"window":    schema.StringAttribute{Required: true},
					"time_zone": text("That of the window; UTC where it is left out."),
					"mode":      text("hard, or soft, which refuses nothing."),
					"thresholds": schema.ListAttribute{
						ElementType: types.Int64Type, Optional: true,
						Description: "Percentages at which a webhook is sent, ascending.",
					},
				}},
			},
		},
	}
}

func (s *budgetState) request() api.BudgetRequest {
	r := api.BudgetRequest{
		Name: s.Name.ValueString(), CustomerReferenceID: s.Customer.ValueString(),
		Parent: s.Parent.ValueString(),
	}
	for _, l := range s.Limits {
		r.Limits = append(r.Limits, api.BudgetLimitRequest{
			Of: l.Of.ValueString(), FeatureKey: l.Feature.ValueString(),
			Currency: l.Currency.ValueString(),
			Limit:    json.Number(l.Limit.ValueString()), Window: l.Window.ValueString(),
			TimeZone: l.TimeZone.ValueString(), Mode: l.Mode.ValueString(), Thresholds: l.Thresholds,
		})
	}
	return r
}

// take takes what the API answers. What the configuration leaves out stays so where the API took
// its own standard, and a decimal keeps the form in which it was written.
func (s *budgetState) take(v *api.Budget) {
	before := s.Limits
	s.Key, s.Name = types.StringValue(v.Budget), types.StringValue(v.Name)
	s.Parent, s.Customer = kept(s.Parent, v.Parent, ""), kept(s.Customer, v.CustomerReferenceID, "")
	s.Frozen = types.BoolValue(v.Status == "FROZEN")
	if s.Limits = nil; before != nil {
		s.Limits = []limitState{}
	}
	for i, l := range v.Limits {
		var old limitState
		if i < len(before) {
			old = before[i]
		}
		now := limitState{
			Of: types.StringValue(l.Of), Feature: kept(old.Feature, l.FeatureKey, ""),
			Currency: kept(old.Currency, l.Currency, "USD"), Limit: types.StringValue(l.Limit.String()),
			Window: types.StringValue(l.Window), TimeZone: kept(old.TimeZone, l.TimeZone, "UTC"),
			Mode: kept(old.Mode, l.Mode, "hard"), Thresholds: l.Thresholds,
		}
		if equalDecimals(old.Limit.ValueString(), l.Limit.String()) {
			now.Limit = old.Limit
		}
		if len(l.Thresholds) == 0 {
			now.Thresholds = nil
			if old.Thresholds != nil {
				now.Thresholds = []int{}
			}
		}
		s.Limits = append(s.Limits, now)
	}
}

func equalDecimals(a, b string) bool {
	x, ok := new(big.Rat).SetString(a)
	y, fine := new(big.Rat).SetString(b)
	return ok && fine && x.Cmp(y) == 0
}

// freeze makes a budget as frozen as it is wanted.
func (b *budget) freeze(
	ctx context.Context, client *api.Client, s *budgetState, wanted bool, say *diag.Diagnostics,
) {
	if s.Frozen.ValueBool() == wanted {
		return
	}
	change := client.UnfreezeBudget
	if wanted {
		change = client.FreezeBudget
	}
	v, err := change(ctx, s.Key.ValueString())
	if err != nil {
		refused(say, "The budget was neither frozen nor unfrozen", err)
		return
	}
	s.take(&v)
}

// Create implements resource.Resource. It takes over no budget that there is. One that it could not
// freeze is left out of the state: Terraform replaces what failed while it was created, which would
// archive the budget, and its key stays taken.
func (b *budget) Create(
	ctx context.Context, from resource.CreateRequest, to *resource.CreateResponse,
) {
	var s budgetState
	to.Diagnostics.Append(from.Plan.Get(ctx, &s)...)
	client := b.billing(&to.Diagnostics)
	if to.Diagnostics.HasError() {
		return
	}
	request, wanted := s.request(), s.Frozen.ValueBool()
	request.Expects = "none"
	v, err := client.PutBudget(ctx, s.Key.ValueString(), request)
	if err != nil {
		title := "The budget was not created"
		if fault := new(api.Error); errors.As(err, &fault) && fault.Status == http.StatusConflict {
			title += "; import it if it exists"
		}
		refused(&to.Diagnostics, title, err)
		return
	}
	s.take(&v)
	if b.freeze(ctx, client, &s, wanted, &to.Diagnostics); to.Diagnostics.HasError() {
		to.Diagnostics.AddError("The budget was created, and is not frozen",
			"Import it as "+s.Key.ValueString()+"; the next apply freezes it.")
		return
	}
	to.Diagnostics.Append(to.State.Set(ctx, &s)...)
}

// Update implements resource.Resource.
func (b *budget) Update(
	ctx context.Context, from resource.UpdateRequest, to *resource.UpdateResponse,
) {
	var s, was budgetState
	to.Diagnostics.Append(from.Plan.Get(ctx, &s)...)
	to.Diagnostics.Append(from.State.Get(ctx, &was)...)
	client := b.billing(&to.Diagnostics)
	if to.Diagnostics.HasError() {
		return
	}
	key, wanted := s.Key.ValueString(), s.Frozen.ValueBool()
	if s.Parent.ValueString() != was.Parent.ValueString() {
		if _, err := client.MoveBudget(ctx, key, s.Parent.ValueString()); err != nil {
			refused(&to.Diagnostics, "The budget was not moved", err)
			return
		}
	}
	request := s.request()
	request.Parent = "" // where it is
	v, err := client.PutBudget(ctx, key, request)
	if err != nil {
		refused(&to.Diagnostics, "The budget was not changed", err)
		return
	}
	s.take(&v)
	b.freeze(ctx, client, &s, wanted, &to.Diagnostics)
	to.Diagnostics.Append(to.State.Set(ctx, &s)...)
}

// Read implements resource.Resource: an archived budget is none.
func (b *budget) Read(ctx context.Context, from resource.ReadRequest, to *resource.ReadResponse) {
	var s budgetState
	to.Diagnostics.Append(from.State.Get(ctx, &s)...)
	client := b.billing(&to.Diagnostics)
	if to.Diagnostics.HasError() {
		return
	}
	v, err := client.Budget(ctx, s.Key.ValueString())
	switch {
	case api.IsStatus(err, http.StatusNotFound) || err == nil && v.Status == "ARCHIVED":
		to.State.RemoveResource(ctx)
	case err != nil:
		refused(&to.Diagnostics, "The budget cannot be read", err)
	default:
		s.take(&v)
		to.Diagnostics.Append(to.State.Set(ctx, &s)...)
	}
}

// Delete implements resource.Resource.
func (b *budget) Delete(
	ctx context.Context, from resource.DeleteRequest, to *resource.DeleteResponse,
) {
	var s budgetState
	to.Diagnostics.Append(from.State.Get(ctx, &s)...)
	client := b.billing(&to.Diagnostics)
	if to.Diagnostics.HasError() {
		return
	}
	_, err := client.ArchiveBudget(ctx, s.Key.ValueString())
	if err != nil && !api.IsStatus(err, http.StatusNotFound) {
		refused(&to.Diagnostics, "The budget was not archived", err)
		return
	}
	to.Diagnostics.AddWarning("The budget is archived",
		"Budgets are never deleted: "+s.Key.ValueString()+" and all below it take no usage any more, and "+
			"the key stays taken.")
}

// ImportState implements resource.ResourceWithImportState.
func (b *budget) ImportState(
	ctx context.Context, from resource.ImportStateRequest, to *resource.ImportStateResponse,
) {
	resource.ImportStatePassthroughID(ctx, path.Root("key"), from, to)
}
