package signup

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNamesInAnySpelling: what only somebody else has is known by its name, however it is written,
// and names that sound like one are taken for what they are.
func TestNamesInAnySpelling(t *testing.T) {
	for rule, names := range map[string][]string{
		Password: {
			"password", "user[password]", "pwd", "userPwd", "USER_PWD", "newPassword", "password2",
			"password_confirmation", "account.passwordRepeat", "signup[user][pass]", "passwd", "passphrase",
			"pass-word", "Passwort", "contraseña", "mot_de_passe", "client_secret", "pw", "userpassword", "loginpwd",
		},
		Payment: {
			"credit_card_number", "creditCardNumber", "creditcard", "cardNumber", "cardnumber", "card[number]",
			"payment[card_no]", "cc-number", "ccnum", "CVV2", "cvc", "iban", "paymentMethodId", "stripeToken",
			"billing.cardHolder", "exp_month", "bankAccountNumber",
		},
		EmailCode: {
			"code", "otp", "pin", "emailVerificationCode", "email_code", "emailcode", "verification-code",
			"user[code]", "data.attributes.confirmationCode", "oneTimePassword", "one_time_code", "totp",
			"authCode", "activation_code", "verificationToken", "userCode",
		},
		Phone: {
			"phone", "phone_number", "phoneNumber", "userphone", "mobile", "mobileNumber", "tel", "smsCode",
			"contact[telephone]", "whatsapp",
		},
		Captcha:  {"captchaToken", "g-recaptcha-response", "h-captcha-response", "cf-turnstile-response"},
		Approval: {"invite_code", "inviteCode", "invitationToken", "referralCode", "accessCode", "coupon"},
		Identity: {"client_assertion", "publicKey", "signature", "SSN", "taxId", "dateOfBirth", "passkey"},
		"": {
			"country_code", "zipCode", "language_code", "currencyCode", "encoded", "discard", "scorecard",
			"phonetic_name", "mobile_app_name", "compass", "spin", "passenger_name", "referral_source",
			"identity", "named", "telemetry", "auth_type", "bypass_reason", "opinion",
		},
	} {
		for _, name := range names {
			require.Equal(t, rule, Wanted(name), name)
		}
	}
}
