package sampleproduct

import (
	"net/http"
	"strings"
)

// about is the home page of a product that publishes a description.
const about = `# Sample product

POST keys gives {"key": …}. GET me with Authorization: Bearer KEY (or Token KEY, or X-API-Key: KEY)
gives {"account": "sample"}. Where signup needs more, the answer to POST keys says what.

- [Description, OpenAPI 3.1](openapi.json)
`

// terse is the home page of the variants that say how to get a key in one other way, each its own.
const terse = `# Sample product

It keeps an account for whoever has a key.
`

// homes are the home pages of variants that publish no description there.
var homes = map[Variant]string{
	AgentAuth:   terse,
	PricingFile: terse + "\n- [Prices for programs](pricing.json)\n",
	Arazzo:      terse + "\n- [Workflows](arazzo.json)\n- [Description](openapi.json)\n",
	CodeBlock: terse + "\n## Get a key\n\n```sh\ncurl -X POST {base}keys \\\n" +
		"  -H 'Content-Type: application/json' -d '{\"name\": \"YOUR_NAME\"}'\n```\n",
}

// operation is an operation of the description: its path, id, body and answer.
type operation struct{ path, id, body, answer string }

func text(names ...string) string {
	var properties, required []string
	for _, name := range names {
		properties = append(properties, `"`+name+`":{"type":"string"}`)
		required = append(required, `"`+name+`"`)
	}
	return `{"type":"object","required":[` + strings.Join(required, ",") + `],"properties":{` +
		strings.Join(properties, ",") + `}}`
}

// described are the operations that sign somebody up.
func described(v Variant) []operation {
	switch v {
	case EmailCode:
		return []operation{
			{"/keys", "signUp", text("email"), text("pending", "signup", "confirm")},
			{"/keys/confirm", "confirmSignUp", text("signup", "code"), text("key")},
		}
	case Exchange:
		return []operation{
			{"/keys", "signUp", text("name"), text("code", "exchange")},
			{"/exchange", "exchangeCode", text("code"), text("key")},
		}
	case Arazzo: // the description alone does not tell that this gives keys
		return []operation{{"/keys/new", "begin", text("name"), text("result")}}
	default:
		return []operation{{"/keys", "signUp", text("name"), text("key")}}
	}
}

// description is the OpenAPI document of a variant.
func description(v Variant) string {
	var paths strings.Builder
	for _, o := range described(v) {
		paths.WriteString(`"` + o.path + `":{"post":{"operationId":"` + o.id + `","security":[],` +
			`"requestBody":{"required":true,"content":{"application/json":{"schema":` + o.body + `}}},` +
			`"responses":{"200":{"description":"Done.","content":{"application/json":{"schema":` +
			o.answer + `}}}}}},`)
	}
	return `{"openapi":"3.1.0","info":{"title":"Sample product","version":"1"},` +
		`"servers":[{"url":"."}],` +
		`"components":{"securitySchemes":{"key":{"type":"http","scheme":"bearer"}}},"paths":{` +
		paths.String() + `"/me":{"get":{"operationId":"me","security":[{"key":[]}],` +
		`"responses":{"200":{"description":"The account."}}}}}}`
}

const pricing = `{"plans":[{"name":"Free","price":0,"currency":"EUR"}],
"provisioning":{"method":"POST","url":"keys","body":{"plan":"Free","name":"<your name>"}}}
`

const workflows = `{"arazzo":"1.0.1","info":{"title":"Sample product","version":"1"},
"sourceDescriptions":[{"name":"sample","url":"openapi.json","type":"openapi"}],
"workflows":[{"workflowId":"signUp","summary":"Sign up and obtain a key.",
"inputs":{"type":"object","properties":{"name":{"type":"string"}}},
"steps":[{"stepId":"begin","operationPath":"{$sourceDescriptions.sample.url}#/paths/~1keys~1new/post",
"requestBody":{"contentType":"application/json","payload":{"name":"$inputs.name"}},
"successCriteria":[{"condition":"$statusCode == 200"}],
"outputs":{"made":"$response.body#/result"}}],
"outputs":{"apiKey":"$steps.begin.outputs.made"}}]}
`

// metadata is the protected resource's (RFC 9728), with the block of the auth.md protocol.
const metadata = `{"resource":"{base}","agent_auth":{"register_uri":"{base}keys",
"identity_types_supported":["anonymous"],
"anonymous":{"credential_types_supported":["api_key"]}}}
`

// publish answers a document of a variant; false if it has none of that name.
func (p *product) publish(w http.ResponseWriter, r *http.Request) bool {
	if r.Method != http.MethodGet {
		return false
	}
	kind, body := "application/json", ""
	switch _, special := homes[p.variant]; {
	case r.URL.Path == "/":
		kind, body = "text/markdown; charset=utf-8", about
		if special {
			body = homes[p.variant]
		}
		if p.variant == Hostile {
			body += orders
		}
	case r.URL.Path == "/openapi.json" && (!special || p.variant == Arazzo):
		body = description(p.variant)
	case r.URL.Path == "/pricing.json" && p.variant == PricingFile:
		body = pricing
	case r.URL.Path == "/arazzo.json" && p.variant == Arazzo:
		body = workflows
	case strings.HasPrefix(r.URL.Path, wellKnown) && p.variant == AgentAuth:
		body = metadata
	default:
		return false
	}
	w.Header().Set("Content-Type", kind)
	say(w, strings.ReplaceAll(body, "{base}", baseOf(r)))
	return true
}

// wellKnown is where RFC 9728 puts the metadata of a protected resource; a resource's own path
// comes after it.
const wellKnown = "/.well-known/oauth-protected-resource"

// baseOf is the address of the product that a request is about, with the path that Site took off.
func baseOf(r *http.Request) string {
	path, of := strings.CutPrefix(r.RequestURI, wellKnown)
	if !of {
		path = strings.TrimSuffix(path, r.URL.Path)
	}
	return "http://" + r.Host + path + "/"
}
