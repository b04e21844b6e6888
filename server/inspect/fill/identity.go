package fill

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"

	"tollgate/server/inspect/signup"
)

// Identity is who signs up in a run: the same for the same run, and no other run's.
type Identity struct {
	// Name is letters, digits and dashes. Mail is an e-mail address: the first that the task names,
	// else one without a mailbox.
	Name, Mail string
}

// mailAddress is an e-mail address in a task's text.
var mailAddress = regexp.MustCompile(
	`[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(\.[A-Za-z0-9-]{1,63})+`)

// IdentityOf is the identity of a run.
func IdentityOf(runID, task string) Identity {
	sum := sha256.Sum256([]byte(runID))
	i := Identity{Name: "tollgate-" + hex.EncodeToString(sum[:5])}
	if i.Mail = mailAddress.FindString(task); i.Mail == "" {
		i.Mail = i.Name + "@agents.example"
	}
	return i
}

// ours are names that say what a text is about: who signs up. They come before examples, which
// belong to somebody else.
var ours = []struct {
	is *regexp.Regexp
	of func(i Identity) string
}{
	{regexp.MustCompile(`email|mail\b|mail ?addr`), func(i Identity) string { return i.Mail }},
	{
		regexp.MustCompile(`\bur[il]|ur[il]s?$|web ?site|home ?page`),
		func(i Identity) string { return "https://agents.example/" + i.Name },
	},
	{
		regexp.MustCompile(`name|label|handle|slug|title|login|work ?space|project|company|` +
			`organi[sz]ation|team|account|agent`),
		func(i Identity) string { return i.Name },
	},
}

// Own is what a field of a name is about, where it is about who signs up; else empty.
func (i Identity) Own(name string) string {
	words := signup.Spelled(signup.LastOf(name))
	for _, o := range ours {
		if o.is.MatchString(words) {
			return o.of(i)
		}
	}
	return ""
}
