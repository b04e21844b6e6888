package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWorkspacesAreValidated(t *testing.T) {
	for setting, want := range map[string]string{
		"{signupsPerHour: -1}":                 "workspaces.signupsPerHour: -1",
		"{payments: paypal}":                   "workspaces.payments",
		"{unclaimedDays: 7}":                   "workspaces.unclaimedDays: 7: want 8 to 3650",
		"{unclaimedDays: 0}":                   "",
		"{emptyHours: 0}":                      "workspaces.emptyHours: 0",
		"{emptyHours: 336}":                    "",
		"{emptyHours: 337}":                    "workspaces.emptyHours: 337: want no more than unclaimedDays, 336",
		"{unclaimedDays: 0, emptyHours: 8760}": "",
		"{credits: {run: -1}}":                 "workspaces.credits.run: -1",
		"{credits: {inspection: 3, evaluation: 4, run: 1000000}}":                "",
		"{credits: {evaluation: 1000001}}":                                       "workspaces.credits.evaluation",
		"{payments: stripe}":                                                     "workspaces.stripe: want secretKey",
		"{payments: stripe, stripe: {secretKey: sk_a, webhookSecret: whsec_a}}":  "",
		"{payments: sandbox, stripe: {secretKey: sk_a, webhookSecret: whsec_a}}": "workspaces.stripe: is for",
		"{agents: [http]}": "",
		"{agents: []}":     "",
		"{commands: [{name: http, version: '1', command: [x]}]}": "workspaces.commands[0]",
		"{agents: [clever]}":      `workspaces.agents: "clever"`,
		"{workers: 0}":            "workspaces.workers: 0",
		"{lease: 1s}":             "workspaces.lease: 1s",
		"{lease: 2s}":             "", // all nodes are on one machine
		"{lease: 11m}":            "workspaces.lease: 11m",
		"{commands: [{name: a}]}": "workspaces.commands[0]",
		"{models: [{name: a}]}":   "workspaces.models[0]",
		"{models: [{name: m, version: '1', dialect: other, url: 'http://m/', model: x}]}":                     "workspaces.models[0]",
		"{models: [{name: m, version: '1', dialect: openai, url: 'http://u:p@m/', model: x}]}":                "workspaces.models[0]",
		"{agents: [m], models: [{name: m, version: '1', dialect: anthropic, url: 'https://m/v1', model: x}]}": "",
		"{commands: [{name: nop, version: '1', command: [x]}]}":                                               "workspaces.commands[0]",
		"{commands: [{name: a, version: '1 2', command: [x]}]}":                                               "workspaces.commands[0]",
		"{agents: [nop, a], commands: [{name: a, version: '1', command: [/a]}]}":                              "",
	} {
		c, err := Parse([]byte("adminKeyHash: '" + zeroes + "'\nworkspaces: " + setting))
		require.NoError(t, err)
		c.Complete()
		err = c.Validate()
		if want == "" {
			require.NoError(t, err, setting)
			continue
		}
		require.ErrorContains(t, err, want, setting)
	}
}

const zeroes = "0000000000000000000000000000000000000000000000000000000000000000"
