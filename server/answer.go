package server

import (
	"strings"
)

// Object answers with one object; write writes its members.
func (x *Exchange) Object(status int, write func(*JSON)) *Fault {
	data := x.Begin()
	data.Open('{')
	write(data)
	data.Close('}')
	return x.End(status)
}

// BareObject is Object without an envelope.
func (x *Exchange) BareObject(status int, write func(*JSON)) *Fault {
	data := x.BeginBare()
	data.Open('{')
	write(data)
	data.Close('}')
	return x.EndBare(status)
}

// One answers with one record.
func One[T any](x *Exchange, status int, v *T, write func(*JSON, *T)) *Fault {
	write(x.Begin(), v)
	return x.End(status)
}

// List answers with all records of a list.
func List[T any](x *Exchange, all []T, write func(*JSON, *T)) *Fault {
	data := x.Begin()
	data.Open('[')
	for i := range all {
		write(data, &all[i])
	}
	data.Close(']')
	return x.End(200)
}

// Page answers with some records of a list, under a name; next leads to the others, where there are
// others.
func Page[T any](
	x *Exchange, name string, some []T, write func(*JSON, *T), next string,
) *Fault {
	return x.Object(200, func(data *JSON) {
		data.Array(name)
		for i := range some {
			write(data, &some[i])
		}
		data.Close(']')
		data.TextIf("nextCursor", next)
	})
}

const paidPage = `<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Payment</title>
<h1>You may close this page</h1>
<p>WHAT shows as STATE as soon as the payment provider has confirmed the payment.</p>BACK
</html>
`

// PaidPage answers payers who come back from a payment page: what, such as "The invoice", will show
// as state once it is paid; both are our own words. back is the path of the pages that they came
// from, empty where that is not known. That somebody opens it confirms nothing.
func (x *Exchange) PaidPage(what, state, back string) *Fault {
	if back != "" {
		back = `
<p><a href="` + back + `">Back to your account</a></p>`
	}
	page := strings.NewReplacer("WHAT", what, "STATE", state, "BACK", back).Replace(paidPage)
	x.Ctx.Response.Header.Set("Referrer-Policy", "no-referrer")
	return x.Bare(200, "text/html; charset=utf-8", []byte(page))
}
