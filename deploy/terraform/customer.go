package main

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// customer is a customer, to be read only: customers are made by the product.
type customer struct{ configured }

var _ datasource.DataSourceWithConfigure = (*customer)(nil)

type customerState struct {
	ExternalID types.String `tfsdk:"external_id"`
	ID         types.String `tfsdk:"id"`
	FirstName  types.String `tfsdk:"first_name"`
	LastName   types.String `tfsdk:"last_name"`
	Email      types.String `tfsdk:"email"`
	Archived   types.Bool   `tfsdk:"archived"`
	Plans      []string     `tfsdk:"plans"`
}

// Metadata implements datasource.DataSource.
func (*customer) Metadata(
	_ context.Context, _ datasource.MetadataRequest, to *datasource.MetadataResponse,
) {
	to.TypeName = "tollgate_customer"
}

// Schema implements datasource.DataSource.
func (*customer) Schema(
	_ context.Context, _ datasource.SchemaRequest, to *datasource.SchemaResponse,
) {
	read := schema.StringAttribute{Computed: true}
	to.Schema = schema.Schema{
		Description: "A customer of the environment.",
		Attributes: map[string]schema.Attribute{
			"external_id": schema.StringAttribute{
				Required: true, Description: "externalClientCustomerId, the product's own id.",
			},
			"id": read, "first_name": read, "last_name": read,
			"email":    schema.StringAttribute{Computed: true, Sensitive: true},
			"archived": schema.BoolAttribute{Computed: true},
			"plans": schema.ListAttribute{
				ElementType: types.StringType, Computed: true, Description: "Of the active subscriptions.",
			},
		},
	}
}

// Configure implements datasource.DataSourceWithConfigure.
func (c *customer) Configure(
	_ context.Context, from datasource.ConfigureRequest, _ *datasource.ConfigureResponse,
) {
	c.take(from.ProviderData)
}

// Read implements datasource.DataSource.
func (c *customer) Read(
	ctx context.Context, from datasource.ReadRequest, to *datasource.ReadResponse,
) {
	var s customerState
	to.Diagnostics.Append(from.Config.Get(ctx, &s)...)
	client := c.billing(&to.Diagnostics)
	if to.Diagnostics.HasError() {
		return
	}
	v, err := client.Customer(ctx, s.ExternalID.ValueString())
	if err != nil {
		refused(&to.Diagnostics, "The customer cannot be read", err)
		return
	}
	s.ID, s.FirstName = types.StringValue(v.ID), types.StringValue(v.FirstName)
	s.LastName, s.Email = types.StringValue(v.LastName), types.StringValue(v.Email)
	s.Archived, s.Plans = types.BoolValue(!v.ArchivedAt.IsZero()), []string{}
	for _, sub := range v.Subscriptions {
		s.Plans = append(s.Plans, sub.Plan.Key)
	}
	to.Diagnostics.Append(to.State.Set(ctx, &s)...)
}
