package cli

import (
	"context"
	"fmt"
	"io"

	"tollgate/cmd/tollgate/devdata"
	api "tollgate/sdk/go"
)

// ClientFlags say where the client API is, and with which key to call it.
type ClientFlags struct {
	URL []string `name:"url" placeholder:"URL" help:"Client API of a node; repeatable. Default: from dev.json."`
	Key string   `env:"TOLLGATE_KEY" placeholder:"KEY" help:"API key. Default: the sandbox key, or with --env=live the live key, of dev.json."`
}

// Connect returns a client of the client API; what the flags leave out is in the dev.json of data.
func (f *ClientFlags) Connect(
	data, environment string, connections int,
) (*api.Client, error) {
	nodes, key := f.URL, f.Key
	if len(nodes) == 0 || key == "" {
		running, err := devdata.Folder(data).Load()
		if err != nil {
			return nil, fmt.Errorf("without --url and --key: %w", err)
		}
		if len(nodes) == 0 {
			for _, node := range running.Nodes {
				nodes = append(nodes, node.HTTP)
			}
		}
		if key == "" {
			key = map[string]string{"sandbox": running.SandboxKey, "live": running.LiveKey}[environment]
		}
	}
	return api.New(nodes, key, connections)
}

type subscriptionsCommand struct {
	Create subscriptionsCreateCommand `cmd:"" help:"Subscribe a customer to a plan."`
	List   subscriptionsListCommand   `cmd:"" help:"List a customer's subscriptions, also those that have ended."`
	Show   subscriptionsShowCommand   `cmd:"" help:"Show a subscription."`
}

// subscriptionFlags say where subscriptions are.
type subscriptionFlags struct {
	ClientFlags `embed:""`
	OutputFlags `embed:""`
	Environment string `name:"env" default:"sandbox" enum:"sandbox,live" help:"sandbox or live: which key of dev.json to use."`
	Data        string `default:".tollgate" help:"Data folder of tollgate dev, whose dev.json says the defaults."`
}

// call calls the client API.
func (f *subscriptionFlags) call(do func(*api.Client) error) error {
	client, err := f.Connect(f.Data, f.Environment, 1)
	if err != nil {
		return err
	}
	defer client.Close()
	client.Patience = adminPatience
	return do(client)
}

type subscriptionsCreateCommand struct {
	subscriptionFlags       `embed:""`
	Customer                string `arg:"" help:"The customer's identifier."`
	Plan                    string `arg:"" help:"The plan's key or id."`
	GracePeriod             *int   `placeholder:"DAYS" help:"How long access goes on without payment. Default: 7."`
	api.SubscriptionDetails `embed:""`
}

// Run subscribes a customer.
func (c *subscriptionsCreateCommand) Run(ctx context.Context, out io.Writer) error {
	return c.call(func(client *api.Client) error {
		made, err := client.CreateSubscription(ctx, api.SubscriptionRequest{
			CustomerReferenceID: c.Customer, PlanID: c.Plan, GracePeriod: c.GracePeriod,
			SubscriptionDetails: c.SubscriptionDetails,
		})
		if err != nil {
			return err
		}
		return c.show(out, &made.Subscription)
	})
}

type subscriptionsListCommand struct {
	subscriptionFlags `embed:""`
	Customer          string `arg:"" help:"The customer's identifier."`
}

// Run lists a customer's subscriptions.
func (c *subscriptionsListCommand) Run(ctx context.Context, out io.Writer) error {
	return c.call(func(client *api.Client) error {
		all, err := client.Subscriptions(ctx, c.Customer)
		if err != nil {
			return err
		}
		return c.printValue(out, all, func() error {
			t := NewTable(out, "ID", "PLAN", "STATE", "PERIOD BEGINS", "PERIOD ENDS")
			for i := range all {
				s := &all[i]
				t.Row(s.ID, s.Plan.Key, s.Status(), moment(s.CurrentPeriodStart),
					moment(s.CurrentPeriodEnd))
			}
			return t.End()
		})
	})
}

type subscriptionsShowCommand struct {
	subscriptionFlags `embed:""`
	ID                string `arg:"" help:"The subscription's id, from subscriptions list."`
}

// Run shows a subscription.
func (c *subscriptionsShowCommand) Run(ctx context.Context, out io.Writer) error {
	return c.call(func(client *api.Client) error {
		s, err := client.Subscription(ctx, c.ID)
		if err != nil {
			return err
		}
		return c.show(out, &s)
	})
}

func (f *subscriptionFlags) show(out io.Writer, s *api.Subscription) error {
	return f.printValue(out, s, func() error {
		t := NewTable(out)
		t.Row("Subscription", s.ID)
		t.Row("Customer", s.Customer.ExternalClientCustomerID)
		t.Row("Plan", fmt.Sprintf("%s version %d", s.Plan.Key, s.Plan.Version))
		t.Row("State", s.Status())
		t.Row("Period", moment(s.CurrentPeriodStart)+" – "+moment(s.CurrentPeriodEnd))
		t.Row("Grace period", fmt.Sprintf("%d days", s.GracePeriodDays))
		for _, d := range api.Details(s.SubscriptionDetails) {
			if d.Value != "" {
				t.Row(d.Label, d.Value)
			}
		}
		return t.End()
	})
}
