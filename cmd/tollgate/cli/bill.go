// Package cli has the commands that go through the APIs of a running cluster, one file per noun.
package cli

// BillCommands are about accounts and what they hold.
type BillCommands struct {
	Accounts      accountsCommand               `cmd:"" group:"meter" help:"Create and list accounts."`
	Keys          keysCommand                   `cmd:"" group:"meter" help:"Create, list and revoke API keys."`
	Origins       originsCommand                `cmd:"" group:"meter" help:"List and set the web origins that may use customer keys."`
	Customers     customersCommand              `cmd:"" group:"meter" help:"List, show, create and change customers, archive one, or erase its personal data."`
	Subscribe     SubscribeCommand              `cmd:"" call:"POST /subscriptions" group:"meter" help:"Subscribe a customer to a plan: subscriptions create."`
	Check         CheckCommand                  `cmd:"" call:"POST /entitlements" group:"meter" help:"Check whether a customer may use a feature, and if not, why."`
	Events        eventsCommand                 `cmd:"" group:"meter" help:"List and follow usage events, send one, list names of events that nothing bills."`
	Subscriptions subscriptionsCommand          `cmd:"" group:"meter" help:"Subscribe customers to plans, change, cancel and show subscriptions."`
	Search        call[searchFlags, searched]   `cmd:"" call:"GET search" group:"meter" help:"Find customers, invoices, subscriptions, events and keys by the beginning of their names."`
	Reservations  reservationsCommand           `cmd:"" group:"meter" help:"Hold usage before it arises, settle it, release it."`
	Budgets       budgetsCommand                `cmd:"" group:"meter" help:"Bound what customers, teams and agents spend."`
	Usage         call[usageFlags, usageTotals] `cmd:"" call:"GET usage" group:"meter" help:"Show usage by hour, day or month, checks and revenue."`
	Clock         clockCommand                  `cmd:"" group:"meter" help:"Show or advance the sandbox's test clock."`
	Seller        sellerCommand                 `cmd:"" group:"bill" help:"Show or state who issues the invoices."`
	Portal        portalCommand                 `cmd:"" group:"bill" help:"Create and end links to customers' own pages, and set how these look."`
	Pools         poolsCommand                  `cmd:"" group:"bill" help:"Manage customers' pools of credits."`
	Invoice       invoiceCommand                `cmd:"" group:"bill" aliases:"invoices" help:"Show, explain, verify and void invoices."`
	Payments      paymentsCommand               `cmd:"" group:"bill" help:"Choose who collects invoices, see what was reported, record what was paid elsewhere."`
	Webhooks      webhooksCommand               `cmd:"" group:"bill" help:"Manage webhook endpoints, see what was sent, send it again."`
	Listen        ListenCommand                 `cmd:"" group:"bill" help:"Forward webhooks to a program on this machine, or print them."`
	Workspaces    workspacesCommand             `cmd:"" group:"bill" help:"Act for the people who own workspaces: approve purchases, set caps, grant credits."`
	Margin        call[marginFlags, margins]    `cmd:"" call:"GET margin" group:"bill" help:"Show revenue, cost and margin."`
}
