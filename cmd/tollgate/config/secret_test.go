package config

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// secretName finds names of settings that are secrets; files of secrets are named, not held.
var secretName = regexp.MustCompile(`(?i)(key|secret|password|token|hash)$|^authorization$`)

// TestSecretsAreTakenOut: every text of a configuration that its name calls a secret, and arguments
// of programs, whatever is added later.
func TestSecretsAreTakenOut(t *testing.T) {
	c := Default()
	c.SignIn.Operators = make([]Operator, 1)
	c.Workspaces.Models = make([]AgentModel, 1)
	c.Workspaces.Commands = []AgentCommand{{Command: []string{"", "", ""}}}
	var secrets, others []string
	var fill func(v reflect.Value, name string)
	fill = func(v reflect.Value, name string) {
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				field, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
				fill(v.Field(i), field)
			}
		case reflect.Slice:
			for i := range v.Len() {
				element := name
				if name == "command" && i > 0 {
					element = "argument key"
				}
				fill(v.Index(i), element)
			}
		case reflect.String:
			text := fmt.Sprintf("canary-%d-of-%s", len(secrets)+len(others), strings.ReplaceAll(name, " ", "-"))
			v.SetString(text)
			if file := v.String(); secretName.MatchString(name) && !ofFile[name] {
				secrets = append(secrets, file)
			} else {
				others = append(others, file)
			}
		}
	}
	fill(reflect.ValueOf(&c).Elem(), "")
	// The key of a certificate is the name of a file.
	c.TLS.Key, c.HTTPTLS.Key, c.OpsTLS.Key = "", "", ""
	taken := c.TakeSecrets()
	text, err := c.YAML()
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(secrets), 8)
	require.Subset(t, secrets, taken)
	for _, secret := range secrets {
		require.NotContains(t, string(text), secret+"\n")
	}
	kept := 0
	for _, other := range others {
		if strings.Contains(string(text), other+"\n") {
			kept++
		}
	}
	require.Greater(t, kept, 20)
	require.Empty(t, new(Config).TakeSecrets())
}

// ofFile are settings that name a file.
var ofFile = map[string]bool{"keyFile": true, "passwordFile": true}
