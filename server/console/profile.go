package console

import (
	"net/url"

	"github.com/go-json-experiment/json/jsontext"

	api "tollgate/sdk/go"
	"tollgate/server"
)

// profileRows change who a customer is, and take one out of use.
func (s *Console) profileRows() []row {
	return []row{
		form(customerPath+"/details", "change customer", changeDetails),
		asked(form(customerPath+"/archive", "archive customer", func(v *visit) {
			removeCustomer(v, false)
		})),
		asked(form(customerPath+"/erase", "erase customer", func(v *visit) {
			removeCustomer(v, true)
		})),
	}
}

// changeDetails changes a customer's profile. Phone and address may be left empty.
func changeDetails(v *visit) {
	fields := map[string]any{}
	for name, typed := range map[string]string{
		"firstName": "first", "lastName": "last", "email": "email", "phoneNumber": "phone",
		"address": "address",
	} {
		fields[name] = v.typed(typed)
		switch {
		case fields[name] != "":
		case name == "phoneNumber" || name == "address":
			fields[name] = jsontext.Value("null")
		default:
			fields[name] = jsontext.Value(`""`) // the row refuses it
		}
	}
	v.customerForm(v.client(server.Call{
		Operation: "updateCustomer", Path: []string{string(v.x.Param(2))}, Body: body(fields),
	}), "details")
}

// removeCustomer archives a customer, or erases who they are.
func removeCustomer(v *visit, erase bool) {
	id := string(v.x.Param(2))
	if !v.sure() {
		shown := need[api.Customer](v, v.client, server.Call{
			Operation: "getCustomer", Path: []string{id},
		})
		q := question{
			Title: "Archive " + id + "?", Button: "Archive the customer", Danger: true,
			Facts: []fact{{"Customer", id}, {"E-mail", shown.Email}}, Back: v.customerURL(id),
			Notes: []string{
				"An archived customer takes no new subscriptions and no new usage, and stays readable. " +
					"Archiving cannot be undone.",
				"Archiving is refused as long as a subscription has not ended.",
			},
		}
		if erase {
			q.Title, q.Button = "Erase the personal data of "+id+"?", "Erase the personal data"
			q.Notes = []string{
				"Name, e-mail, phone number, address and the saved cards of top-ups are replaced on all " +
					"nodes. It cannot be undone.",
				"Invoices and usage stay, and invoices show the customer's id alone.",
			}
		}
		v.ask(q)
		return
	}
	call, what := v.adminCall("removeCustomer", id), "archived-customer"
	if erase {
		call.Query, what = url.Values{"erase": {"true"}}, "erased"
	}
	v.customerForm(v.admin(call), what)
}
