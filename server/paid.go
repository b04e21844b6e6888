package server

import "strings"

const paidPage = `<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Payment</title>
<h1>You may close this page</h1>
<p>WHAT shows as STATE as soon as the payment provider has confirmed the payment.</p>
</html>
`

// PaidPage answers payers who come back from a payment page: what, such as "The invoice", will show
// as state once it is paid; both are our own words. That somebody opens it confirms nothing.
func (x *Exchange) PaidPage(what, state string) *Fault {
	page := strings.NewReplacer("WHAT", what, "STATE", state).Replace(paidPage)
	x.Ctx.Response.Header.Set("Referrer-Policy", "no-referrer")
	return x.Bare(200, "text/html; charset=utf-8", []byte(page))
}
