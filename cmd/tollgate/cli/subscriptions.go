package cli

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	api "tollgate/sdk/go"
)

type subscriptionsCommand struct {
	Create SubscribeCommand                `cmd:"" call:"POST /subscriptions" help:"Subscribe a customer to a plan."`
	List   call[ofCustomer, subscriptions] `cmd:"" call:"GET /customers/{Customer}/subscriptions?status=all" help:"List a customer's subscriptions, also those that have ended."`
	Show   call[ofID, subscription]        `cmd:"" call:"GET /subscriptions/{ID}" help:"Show a subscription."`
}

// SubscribeCommand subscribes a customer.
type SubscribeCommand = call[subscribeFlags, subscribed]

type subscribeFlags struct {
	inClient                `embed:""`
	Customer                string `arg:"" json:"customerReferenceId" help:"The customer's identifier."`
	Plan                    string `arg:"" json:"planId" help:"The plan's key or id."`
	GracePeriod             *int   `json:"gracePeriod,omitempty" placeholder:"DAYS" help:"How long access goes on without payment. Default: 7."`
	api.SubscriptionDetails `embed:""`
	IdempotencyKey          string `placeholder:"KEY" help:"Repeated with it, the command subscribes once. Default: a random one, which is printed where it is unknown whether the subscription was made."`
}

func (f *subscribeFlags) send(
	ctx context.Context, method, path string, body, v any,
) (json.RawMessage, error) {
	key := either(f.IdempotencyKey, rand.Text())
	data, err := f.inClient.send(context.WithValue(ctx, repeatKey{}, key), method, path, body, v)
	return data, repeatable(err, "--idempotency-key", key)
}

type ofID struct {
	inClient `embed:""`
	ID       string `arg:"" help:"The subscription's id, from subscriptions list."`
}

type subscriptions []api.Subscription

func (l subscriptions) print(out io.Writer) error {
	t := NewTable(out, "ID", "PLAN", "STATE", "PERIOD BEGINS", "PERIOD ENDS", "SCHEDULED")
	for i := range l {
		s := &l[i]
		t.Row(s.ID, s.Plan.Key, s.Status(), moment(s.CurrentPeriodStart), moment(s.CurrentPeriodEnd),
			either(scheduled(s), "–"))
	}
	return t.End()
}

// scheduled says how a subscription is about to change; empty: it is not.
func scheduled(s *api.Subscription) string {
	switch c := s.ScheduledChange; {
	case s.Status() == "ended":
		return ""
	case !s.CancelEffectiveAt.IsZero():
		return "ends " + moment(s.CancelEffectiveAt)
	case c != nil:
		return strings.ToLower(c.Type) + " to " + c.ToPlan.Key + " " + moment(c.EffectiveAt)
	}
	return ""
}

type subscription struct{ api.Subscription }

func (s *subscription) print(out io.Writer) error {
	t := NewTable(out)
	t.Row("Subscription", s.ID)
	t.Row("Customer", s.Customer.ExternalClientCustomerID)
	t.Row("Plan", fmt.Sprintf("%s version %d", s.Plan.Key, s.Plan.Version))
	t.Row("State", s.Status())
	t.Row("Period", moment(s.CurrentPeriodStart)+" – "+moment(s.CurrentPeriodEnd))
	if text := scheduled(&s.Subscription); text != "" {
		t.Row("Scheduled", text)
	}
	t.Row("Grace period", fmt.Sprintf("%d days", s.GracePeriodDays))
	for _, d := range api.Details(s.SubscriptionDetails) {
		if d.Value != "" {
			t.Row(d.Label, d.Value)
		}
	}
	return t.End()
}

// subscribed is a new subscription, with its first invoice.
type subscribed struct{ api.Created }

func (s *subscribed) print(out io.Writer) error {
	return (&subscription{s.Subscription}).print(out)
}
