package follower

import (
	"regexp"
	"strings"
	"unicode"
)

// wants are fields that only somebody else can fill, by the words of their names, with the rule of
// each. Names are written in as many ways as there are products, so the words are looked for
// anywhere, apart or in one: what is taken for a password and is none ends a run that might have
// gone on, and what is none and is taken for something else is an account that nobody can enter, or
// a false number on a bill. Of two rules the first counts.
var wants = []struct {
	rule string
	is   *regexp.Regexp
}{
	{ruleCaptcha, regexp.MustCompile(`captcha|turnstile`)},
	{rulePhone, regexp.MustCompile(`phones?\b|phone ?(code|no|num)|telefon|\bmsisdn\b|\bwhats ?app\b|` +
		`\bfax\b|\b(mobile|cell|tel|sms)( ?(code|no|num|nr|number|otp|phone))?$`)},
	{ruleEmailCode, regexp.MustCompile(`^(code|otp|pin)$|\b(t?otp|mfa|2fa|tfa)\b|\bone ?time|` +
		`(mail|verif(y|ication)|confirm(ation)?|activat(e|ion)|auth(entication|enticator)?|security|` +
		`user|log ?in|sign ?up|sign ?in|registration|magic|digit) ?(code|otp|pin)$|` +
		`(mail|verif(y|ication)|confirm(ation)?|activation) ?token$`)},
	{rulePassword, regexp.MustCompile(`pass ?wor[dt]|pass ?(wd|phrase|code)|pwd\b|` +
		`\b(pass|psw|pswd|pw|pwds?|secret)\b|kennwort|contrase.a|mot ?de ?passe|\bsenha\b|wachtwoord`)},
	{rulePayment, regexp.MustCompile(`\bcards?\b|(credit|debit|bank|payment) ?card|` +
		`card ?(code|cvc|cvv|exp|holder|no\b|num|owner|token)|` +
		`\bcc ?(cs[cv]|cv[cv]|exp|name|no\b|num|type)|` +
		`\b(cvc|cvv|cvn|csc|iban|bic|sepa)\b|payment|stripe ?token|` +
		`(account|bank|routing|sort) ?(code|number)|\bexp(iry|iration)? ?(month|year)`)},
	{ruleApproval, regexp.MustCompile(`\binvit|invite|referr?al( ?(code|id|token))?$|` +
		`(access|beta|coupon|promo|promotion|voucher) ?code|\b(coupon|voucher)$`)},
	{ruleIdentity, regexp.MustCompile(`assertion|public ?key|pass ?key|\bsignature\b|passport|\bssn\b|` +
		`social ?security|(national|tax|vat) ?(id|no|number)\b|birth ?da(te|y)|date ?of ?birth|\bdob\b`)},
}

// Wanted is the rule of a field that only somebody else can fill; empty where it is none. The name
// may say what the field lies in, as user[password] does.
func Wanted(name string) string {
	whole, last := spelled(name), spelled(lastOf(name))
	for _, w := range wants {
		if w.is.MatchString(whole) || w.is.MatchString(last) {
			return w.rule
		}
	}
	return ""
}

// spelled is a name as its words in small letters, whichever way it is written: user[newPassword],
// USER_NEW_PASSWORD and user.new-password2 are "user new password".
func spelled(name string) string {
	var b strings.Builder
	runes := []rune(name)
	for i, r := range runes {
		switch {
		case unicode.IsUpper(r):
			after := i > 0 && (unicode.IsLower(runes[i-1]) || unicode.IsDigit(runes[i-1]))
			before := i > 0 && i+1 < len(runes) && unicode.IsLower(runes[i+1])
			if after || before {
				b.WriteByte(' ')
			}
			b.WriteRune(unicode.ToLower(r))
		case unicode.IsLetter(r) || unicode.IsDigit(r):
			b.WriteRune(r)
		default:
			b.WriteByte(' ')
		}
	}
	words := strings.Fields(b.String())
	kept := words[:0]
	for _, word := range words {
		// address1, password2: the number says which of several.
		if word = strings.TrimRight(word, "0123456789"); word != "" {
			kept = append(kept, word)
		}
	}
	return strings.Join(kept, " ")
}

// inside is the name of a field within another.
func inside(outer, name string) string {
	if outer == "" {
		return name
	}
	return outer + "[" + name + "]"
}

// lastOf is the innermost part of a name: of user[password] password.
func lastOf(name string) string {
	name = strings.TrimRight(name, "[]")
	return name[strings.LastIndexAny(name, "[].")+1:]
}
