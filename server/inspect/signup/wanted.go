package signup

import (
	"cmp"
	"regexp"
	"strings"
	"unicode"

	"tollgate/server/inspect/tree"
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

// requiredOf is the rule of a field that a schema requires and only somebody else can fill; empty
// where there is none. What has one value, or says yes or no, anybody can.
func requiredOf(resolve func(*tree.Node) *tree.Node, schema *tree.Node) string {
	left := maxLooked
	var look func(name string, schema *tree.Node, depth int) string
	look = func(name string, schema *tree.Node, depth int) (rule string) {
		n := resolve(schema)
		if left--; left < 0 || depth > maxDepth || n.Of("const") != nil || n.Of("enum") != nil {
			return ""
		}
		parts, properties := n.Of("allOf"), n.Of("properties")
		for i := range parts.List() {
			rule = cmp.Or(rule, look(name, &parts.Items[i], depth+1))
		}
		list := n.Of("required").List()
		for i := range list {
			field := list[i].AsText()
			inner := field
			if name != "" {
				inner = name + "[" + field + "]"
			}
			rule = cmp.Or(rule, look(inner, properties.Of(field), depth+1))
		}
		kind := n.TextOf("type")
		if rule != "" || parts != nil || properties != nil || kind == "object" || kind == "array" ||
			kind == "boolean" {
			return rule
		}
		for _, either := range []string{"oneOf", "anyOf"} {
			parts = n.Of(either)
			for i := range parts.List() {
				if rule = look(name, &parts.Items[i], depth+1); rule == "" {
					return ""
				}
			}
			if rule != "" {
				return rule
			}
		}
		if n.TextOf("format") == "password" {
			return Password
		}
		return Wanted(name)
	}
	return look("", schema, 0)
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
