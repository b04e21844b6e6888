package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWorkspacesAreValidated(t *testing.T) {
	for setting, want := range map[string]string{
		"{signupsPerHour: -1}":    "workspaces.signupsPerHour: -1",
		"{payments: stripe}":      "workspaces.payments",
		"{agents: [clever]}":      `workspaces.agents: "clever"`,
		"{workers: 0}":            "workspaces.workers: 0",
		"{commands: [{name: a}]}": "workspaces.commands[0]",
		"{commands: [{name: nop, version: '1', command: [x]}]}":                  "workspaces.commands[0]",
		"{commands: [{name: a, version: '1 2', command: [x]}]}":                  "workspaces.commands[0]",
		"{agents: [nop, a], commands: [{name: a, version: '1', command: [/a]}]}": "",
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
