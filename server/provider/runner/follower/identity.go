package follower

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
)

// Identity is who signs up in a run: the same for the same run, and nobody else's.
type Identity struct {
	// Name is letters, digits and dashes. Mail is an e-mail address: the first that the task names,
	// else one that nobody receives mail at.
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
	{regexp.MustCompile(`mail`), func(i Identity) string { return i.Mail }},
	{
		regexp.MustCompile(`url|uri|website|homepage`),
		func(i Identity) string { return "https://agents.example/" + i.Name },
	},
	{
		regexp.MustCompile(`name|label|handle|slug|title|login|workspace|project|company|` +
			`organi[sz]ation|team|account|agent`),
		func(i Identity) string { return i.Name },
	},
}

// Own is what a field of a name is about, where it is about who signs up; else empty.
func (i Identity) Own(name string) string {
	for _, o := range ours {
		if o.is.MatchString(plainName(name)) {
			return o.of(i)
		}
	}
	return ""
}

// wants are fields that only somebody else can fill, by their names, with the rule of each.
var wants = []struct {
	rule string
	is   *regexp.Regexp
}{
	{"captcha", regexp.MustCompile(`captcha|turnstile`)},
	{"password_wanted", regexp.MustCompile(`^(new)?passw(or)?d|passphrase|passwordconfirm`)},
	{"payment_required", regexp.MustCompile(`^(card|cvc|iban|payment)`)},
	{"phone", regexp.MustCompile(`phone|^mobile`)},
	{"approval", regexp.MustCompile(`^(invit|referr?al|accesscode)`)},
	{"email_code", regexp.MustCompile(`^(otp|code|pin|(email|verification|confirmation|user)code)$`)},
	{"identity_required", regexp.MustCompile(`^(assertion|publickey|signature)$`)},
}

// Wanted is the rule of a field that only somebody else can fill; empty where it is none.
func Wanted(name string) string {
	for _, w := range wants {
		if w.is.MatchString(plainName(name)) {
			return w.rule
		}
	}
	return ""
}

// LooksLikeKey says that a text is written as makers of keys write them.
func LooksLikeKey(text string) bool { return keyShape.MatchString(text) }

// SignsUp says that something, by what it is called, signs somebody up.
func SignsUp(called string) bool { return signUpWords.MatchString(called) }
