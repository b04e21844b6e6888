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
	List   call[ofCustomer, subscriptions] `cmd:"" call:"GET /customers/{Customer}/subscriptions?status=all" help:"List a customer's subscriptions, including those that have ended."`
	Show   call[ofID, subscription]        `cmd:"" call:"GET /subscriptions/{ID}" help:"Show a subscription."`
	Change call[changeFlags, none]         `cmd:"" call:"POST /subscriptions/{ID}/plan-change" says:"Subscription {ID}: the change to {Plan} is recorded." help:"Change a subscription's plan, now or at the period's end."`
	Stay   call[ofID, none]                `cmd:"" call:"DELETE /subscriptions/{ID}/plan-change/scheduled" says:"Subscription {ID} stays on its plan." help:"Cancel a scheduled change of plan."`
	Cancel call[cancelFlags, none]         `cmd:"" call:"POST /subscriptions/cancellation/{ID}" says:"Subscription {ID}: the cancellation is recorded." help:"Cancel a subscription, at the period's end or now."`
	Keep   call[ofID, none]                `cmd:"" call:"DELETE /subscriptions/cancellation/{ID}/scheduled" says:"Subscription {ID} is no longer cancelled." help:"Revert a cancellation that has not taken effect."`
}

// SubscribeCommand subscribes a customer.
type SubscribeCommand = call[subscribeFlags, subscribed]

// inClientOnce are the flags of a command that the client API carries out once for its key.
type inClientOnce struct {
	inClient       `embed:""`
	IdempotencyKey string `placeholder:"KEY" help:"Repeated with it, the command is carried out once. Default: a random one, which is printed where it is unknown whether it was carried out."`
}

func (f *inClientOnce) send(
	ctx context.Context, method, path string, body, v any,
) (json.RawMessage, error) {
	key := either(f.IdempotencyKey, rand.Text())
	data, err := f.inClient.send(context.WithValue(ctx, repeatKey{}, key), method, path, body, v)
	return data, repeatable(err, "--idempotency-key", key)
}

type subscribeFlags struct {
	inClientOnce            `embed:""`
	Customer                string `arg:"" json:"customerReferenceId" help:"The customer's identifier."`
	Plan                    string `arg:"" json:"planId" help:"The plan's key or id."`
	GracePeriod             *int   `json:"gracePeriod,omitempty" placeholder:"DAYS" help:"How many days access continues without payment. Default: 7."`
	api.SubscriptionDetails `embed:""`
}

type changeFlags struct {
	inClientOnce `embed:""`
	ID           string `arg:"" help:"The subscription's id, from subscriptions list."`
	Plan         string `arg:"" json:"changeToPlanId" help:"The other plan's key or id."`
	Type         string `json:"changeType" required:"" enum:"UPGRADE,DOWNGRADE" help:"UPGRADE: now, and the difference of the prices is charged; DOWNGRADE: at the period's end."`
}

type cancelFlags struct {
	inClientOnce `embed:""`
	ID           string `arg:"" help:"The subscription's id, from subscriptions list."`
	Mode         string `query:"cancelMode" default:"END_OF_PERIOD" enum:"END_OF_PERIOD,IMMEDIATE" help:"When it ends: END_OF_PERIOD, or IMMEDIATE, which invoices unbilled usage and refunds nothing."`
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
