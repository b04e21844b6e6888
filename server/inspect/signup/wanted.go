package signup

import (
	"regexp"
	"strings"
	"unicode"
)

// The rules of fields that only somebody else can fill.
const (
	Captcha   = "captcha"
	Phone     = "phone"
	EmailCode = "email_code"
	Password  = "password_wanted"
	Payment   = "payment_required"
	Approval  = "approval"
	Identity  = "identity_required"
)

// wants are fields that only somebody else can fill, by the words of their names, with the rule of
// each. Names are written in as many ways as there are products, so the words are looked for
// anywhere, apart or in one: what is taken for a password and is none ends a run that might have
// gone on, and what is none and is taken for something else is an account that cannot be entered,
// or a false number on a bill. Of two rules the first counts.
var wants = []struct {
	rule string
	is   *regexp.Regexp
}{
	{Captcha, regexp.MustCompile(`captcha|turnstile`)},
	{Phone, regexp.MustCompile(`phones?\b|phone ?(code|no|num)|telefon|\bmsisdn\b|\bwhats ?app\b|` +
		`\bfax\b|\b(mobile|cell|tel|sms)( ?(code|no|num|nr|number|otp|phone))?$`)},
	{EmailCode, regexp.MustCompile(`^(code|otp|pin)$|\b(t?otp|mfa|2fa|tfa)\b|\bone ?time|` +
		`(mail|verif(y|ication)|confirm(ation)?|activat(e|ion)|auth(entication|enticator)?|security|` +
		`user|log ?in|sign ?up|sign ?in|registration|magic|digit) ?(code|otp|pin)$|` +
		`(mail|verif(y|ication)|confirm(ation)?|activation) ?token$`)},
	{Password, regexp.MustCompile(`pass ?wor[dt]|pass ?(wd|phrase|code)|pwd\b|` +
		`\b(pass|psw|pswd|pw|pwds?|secret)\b|kennwort|contrase.a|mot ?de ?passe|\bsenha\b|wachtwoord`)},
	{Payment, regexp.MustCompile(`\bcards?\b|(credit|debit|bank|payment) ?card|` +
		`card ?(code|cvc|cvv|exp|holder|no\b|num|owner|token)|` +
		`\bcc ?(cs[cv]|cv[cv]|exp|name|no\b|num|type)|` +
		`\b(cvc|cvv|cvn|csc|iban|bic|sepa)\b|payment|stripe ?token|` +
		`(account|bank|routing|sort) ?(code|number)|\bexp(iry|iration)? ?(month|year)`)},
	{Approval, regexp.MustCompile(`\binvit|invite|referr?al( ?(code|id|token))?$|` +
		`(access|beta|coupon|promo|promotion|voucher) ?code|\b(coupon|voucher)$`)},
	{Identity, regexp.MustCompile(`assertion|public ?key|pass ?key|\bsignature\b|passport|\bssn\b|` +
		`social ?security|(national|tax|vat) ?(id|no|number)\b|birth ?da(te|y)|date ?of ?birth|\bdob\b`)},
}

// Wanted is the rule of a field that only somebody else can fill; empty where it is none. The name
// may say what the field lies in, as user[password] does.
func Wanted(name string) string {
	whole, last := Spelled(name), Spelled(LastOf(name))
	for _, w := range wants {
		if w.is.MatchString(whole) || w.is.MatchString(last) {
			return w.rule
		}
	}
	return ""
}

// Spelled is a name as its words in small letters, whichever way it is written: user[newPassword],
// USER_NEW_PASSWORD and user.new-password2 are "user new password".
func Spelled(name string) string {
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

// LastOf is the innermost part of a name: of user[password] password.
func LastOf(name string) string {
	name = strings.TrimRight(name, "[]")
	return name[strings.LastIndexAny(name, "[].")+1:]
}
