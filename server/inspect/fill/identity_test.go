package fill

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNamesOfWhoSignsUp: the last part of a name says what is wanted, and a word within another
// says nothing.
func TestNamesOfWhoSignsUp(t *testing.T) {
	who := Identity{Name: "n", Mail: "m"}
	for name, wanted := range map[string]string{
		"user[email]": "m", "workEmail": "m", "mail": "m", "e-mail": "m", "e_mail_address": "m",
		"email[name]": "n", "companyName": "n", "organisation": "n", "user[login]": "n",
		"redirect_uri": "https://agents.example/n", "callbackurl": "https://agents.example/n",
		"homepage": "https://agents.example/n", "security_question": "", "mailing": "", "plan": "",
	} {
		require.Equal(t, wanted, who.Own(name), name)
	}
}
