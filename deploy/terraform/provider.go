package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	api "tollgate/sdk/go"
)

// patience is how long a call is repeated while no node can take it.
const patience = 15 * time.Second

// tollgateProvider is the provider: it knows one environment of one account.
type tollgateProvider struct{}

func newProvider() provider.Provider { return tollgateProvider{} }

// settings are the block of the provider in a configuration.
type settings struct {
	Ops         []string     `tfsdk:"ops"`
	AdminKey    types.String `tfsdk:"admin_key"`
	URL         []string     `tfsdk:"url"`
	Key         types.String `tfsdk:"key"`
	CA          types.String `tfsdk:"ca"`
	Account     types.String `tfsdk:"account"`
	Environment types.String `tfsdk:"environment"`
}

// Metadata implements provider.Provider.
func (tollgateProvider) Metadata(
	_ context.Context, _ provider.MetadataRequest, to *provider.MetadataResponse,
) {
	to.TypeName = "tollgate"
}

// Schema implements provider.Provider.
func (tollgateProvider) Schema(
	_ context.Context, _ provider.SchemaRequest, to *provider.SchemaResponse,
) {
	to.Schema = schema.Schema{
		Description: "One environment of an account of Tollgate.",
		Attributes: map[string]schema.Attribute{
			"ops": schema.ListAttribute{
				ElementType: types.StringType, Optional: true,
				Description: "Operations listeners of the nodes, for the catalog and webhook endpoints. " +
					"Default: TOLLGATE_OPS, with commas between them.",
			},
			"admin_key": schema.StringAttribute{
				Optional: true, Sensitive: true,
				Description: "The admin key. Default: TOLLGATE_ADMIN_KEY.",
			},
			"url": schema.ListAttribute{
				ElementType: types.StringType, Optional: true,
				Description: "Client API of the nodes, for budgets and customers. Default: TOLLGATE_URL, " +
					"with commas between them.",
			},
			"key": schema.StringAttribute{
				Optional: true, Sensitive: true,
				Description: "A full API key of the environment. Default: TOLLGATE_KEY.",
			},
			"ca": schema.StringAttribute{
				Optional: true,
				Description: "The authority of the nodes' certificates, PEM. Default: the file that " +
					"TOLLGATE_CA names, or the machine's authorities.",
			},
			"account":     schema.StringAttribute{Required: true, Description: "The account's name."},
			"environment": schema.StringAttribute{Required: true, Description: "live or sandbox."},
		},
	}
}

// environment is what resources call: the admin API and the client API of an environment. Either is
// nil where the provider was given no key for it.
type environment struct {
	id            string // ACCOUNT/ENVIRONMENT
	at            string // its path in the admin API
	admin, client *api.Client
}

// Configure implements provider.Provider.
func (tollgateProvider) Configure(
	ctx context.Context, from provider.ConfigureRequest, to *provider.ConfigureResponse,
) {
	var s settings
	if to.Diagnostics.Append(from.Config.Get(ctx, &s)...); to.Diagnostics.HasError() {
		return
	}
	account, name := s.Account.ValueString(), s.Environment.ValueString()
	if name != "live" && name != "sandbox" {
		to.Diagnostics.AddAttributeError(path.Root("environment"), "Wrong environment",
			fmt.Sprintf("%q: want live or sandbox.", name))
		return
	}
	trust := s.CA.ValueString()
	if file := os.Getenv("TOLLGATE_CA"); trust == "" && file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			to.Diagnostics.AddError("TOLLGATE_CA cannot be read", err.Error())
			return
		}
		trust = string(text)
	}
	e := &environment{
		id: account + "/" + name,
		at: "/api/v1/admin/accounts/" + url.PathEscape(account) + "/environments/" + name,
	}
	var err error
	e.admin, err = connect(s.Ops, "TOLLGATE_OPS", s.AdminKey, "TOLLGATE_ADMIN_KEY", trust)
	if err != nil {
		to.Diagnostics.AddError("The operations listeners cannot be called", err.Error())
	}
	e.client, err = connect(s.URL, "TOLLGATE_URL", s.Key, "TOLLGATE_KEY", trust)
	if err != nil {
		to.Diagnostics.AddError("The client API cannot be called", err.Error())
	}
	to.ResourceData, to.DataSourceData = e, e
}

// connect returns a client; nil where there is no key, or no node to call.
func connect(
	nodes []string, nodesFrom string, key types.String, keyFrom, trust string,
) (*api.Client, error) {
	if names := os.Getenv(nodesFrom); len(nodes) == 0 && names != "" {
		nodes = strings.Split(names, ",")
	}
	secret := cmp.Or(key.ValueString(), os.Getenv(keyFrom))
	if len(nodes) == 0 || secret == "" {
		return nil, nil
	}
	c, err := api.New(nodes, secret, 4)
	if err != nil {
		return nil, err
	}
	c.Patience, c.Actor = patience, "terraform"
	if trust != "" {
		err = c.Trust([]byte(trust))
	}
	return c, err
}

// Resources implements provider.Provider.
func (tollgateProvider) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{
		func() resource.Resource { return new(catalog) },
		func() resource.Resource { return new(budget) },
		func() resource.Resource { return new(webhookEndpoint) },
	}
}

// DataSources implements provider.Provider.
func (tollgateProvider) DataSources(context.Context) []func() datasource.DataSource {
	return []func() datasource.DataSource{func() datasource.DataSource { return new(customer) }}
}

// configured is the environment that a resource or data source calls.
type configured struct{ *environment }

// take takes the environment; it is nil while a configuration is only checked.
func (c *configured) take(data any) {
	if e, ok := data.(*environment); ok {
		c.environment = e
	}
}

// Configure implements resource.ResourceWithConfigure.
func (c *configured) Configure(
	_ context.Context, from resource.ConfigureRequest, _ *resource.ConfigureResponse,
) {
	c.take(from.ProviderData)
}

// operations is the admin API's client.
func (c *configured) operations(say *diag.Diagnostics) *api.Client {
	if c.environment == nil || c.admin == nil {
		say.AddError("The provider has no admin key",
			"Set ops and admin_key of the provider, or TOLLGATE_OPS and TOLLGATE_ADMIN_KEY.")
		return nil
	}
	return c.admin
}

// billing is the client API's client.
func (c *configured) billing(say *diag.Diagnostics) *api.Client {
	if c.environment == nil || c.client == nil {
		say.AddError("The provider has no API key",
			"Set url and key of the provider, or TOLLGATE_URL and TOLLGATE_KEY.")
		return nil
	}
	return c.client
}

// refused says what an API refused; fields that are wrong are in it.
func refused(say *diag.Diagnostics, what string, err error) {
	text := err.Error()
	if e, ok := err.(*api.Error); ok {
		for _, f := range e.Fields {
			text += fmt.Sprintf("\n%s: %s", f.Field, f.Message)
		}
		if e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden {
			text += "\nIs the key that of this cluster, and of this environment?"
		}
	}
	say.AddError(what, text)
}

// once is the header that makes a repeated request count once.
func once() map[string]string { return map[string]string{"Idempotency-Key": rand.Text()} }

// kept is what stands in the state of an optional text: what the API answers. Where that is only
// what the API takes for a text that is left out, null and "" of the configuration stay as they
// are: Terraform refuses a provider that turns "" into something else.
func kept(before types.String, answered, standard string) types.String {
	switch {
	case answered != "" && answered != standard:
		return types.StringValue(answered)
	case before.ValueString() == "" && !before.IsUnknown():
		return before
	case answered == "" || before.IsUnknown():
		return types.StringNull()
	}
	return types.StringValue(answered)
}
