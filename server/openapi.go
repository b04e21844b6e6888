package server

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
)

// Description is what an OpenAPI document says in addition to its routes.
type Description struct {
	Title, Version, About string
	// Servers are where the API is reached; none is the address that the document was read from.
	Servers []string
	// Schemas are shared, by name.
	Schemas map[string]*Schema
	// OpenAPI is the version of the format; 3.0.3 when empty.
	OpenAPI string
	// Fault is the schema of refusals; the client API's when nil.
	Fault *Schema
	// Tags are the parts of the API, in their order.
	Tags []Tag
	// Key is the variable that holds the key in requests that are shown.
	Key string
}

// ServerAbout says what the address "/" of a document stands for.
const ServerAbout = "Where this document was read: a node, or what balances them."

// Document makes an API's OpenAPI document. Later makes it once.
type Document func() ([]byte, error)

// Later makes a document when it is first asked for: that takes longer than all else at a start.
// One that cannot be made is not tried again: it depends on nothing but the program.
func Later(d Document) Document { return sync.OnceValues(d) }

// Answer answers the document.
func (d Document) Answer(x *Exchange) *Fault {
	text, err := d()
	if err != nil {
		x.table.config.Log.Error("the OpenAPI document cannot be made", "error", err)
		return FaultInternal
	}
	return x.Bare(200, "application/json", text)
}

// OpenAPI generates the document (OpenAPI 3.0.3) of the routes that the router uses.
func OpenAPI(routes []Route, about Description) ([]byte, error) {
	if about.Fault == nil {
		about.Fault = faultSchema
	}
	about.OpenAPI = cmp.Or(about.OpenAPI, "3.0.3")
	schemas := map[string]any{"Fault": about.Fault.document()}
	for name, schema := range about.Schemas {
		schemas[name] = schema.document()
	}
	if len(about.Servers) == 0 {
		about.Servers = []string{"/"}
	}
	servers := make([]any, len(about.Servers))
	for i, url := range about.Servers {
		servers[i] = map[string]any{"url": url}
		if url == "/" {
			servers[i] = map[string]any{"url": url, "description": ServerAbout}
		}
	}
	draw := newIllustrator(routes)
	paths := map[string]any{}
	for i := range routes {
		r := &routes[i]
		item, ok := paths[r.Path].(map[string]any)
		if !ok {
			item = map[string]any{}
			paths[r.Path] = item
		}
		item[strings.ToLower(r.Method)] = r.operation(draw, about.Key)
	}
	document := map[string]any{
		"openapi": about.OpenAPI,
		"info": map[string]any{
			"title": about.Title, "version": about.Version, "description": about.About,
		},
		"servers": servers,
		"paths":   paths,
		"components": map[string]any{
			"schemas": schemas,
			"securitySchemes": map[string]any{
				"bearer": map[string]any{"type": "http", "scheme": "bearer"},
				"header": map[string]any{"type": "apiKey", "in": "header", "name": "X-API-Key"},
			},
		},
	}
	if len(draw.shared) > 0 {
		document["components"].(map[string]any)["examples"] = draw.shared
	}
	if len(about.Tags) > 0 {
		document["tags"] = tagsOf(about.Tags)
	}
	text, err := json.Marshal(document, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("server: OpenAPI document: %w", err)
	}
	return text, nil
}

func tagsOf(tags []Tag) []any {
	all := make([]any, len(tags))
	for i, tag := range tags {
		all[i] = map[string]any{"name": tag.Name, "description": tag.About}
	}
	return all
}

// ShortageSchema is what a reservation lacks. Its unit is that of used, held and limit.
var ShortageSchema = Object(
	Must("level", TextSchema(0, 0)), Must("featureKey", TextSchema(0, 0)),
	Must("requestedUnits", NumberSchema), Must("used", NumberSchema), Must("held", NumberSchema),
	Must("limit", NumberSchema), Must("unit", EnumSchema("units", "credits")),
	Must("logIndex", IntegerSchema),
)

// RefusalSchema is the limit of a budget that refuses something, or a frozen or archived budget.
var RefusalSchema = Object(
	Must("budget", TextSchema(1, 128)), May("of", EnumSchema("units", "price", "cost")),
	May("featureKey", TextSchema(1, 128)), May("currency", TextSchema(3, 3)),
	May("window", EnumSchema("hour", "day", "week", "month", "year", "lifetime")),
	May("used", NumberSchema), May("held", NumberSchema), May("limit", NumberSchema),
	May("windowStart", TimeSchema), May("windowEnd", TimeSchema), Must("logIndex", IntegerSchema),
)

var faultSchema = Object(
	Must("success", &Schema{Type: "boolean"}),
	Must("error", Object(
		Must("message", TextSchema(1, 0)),
		May("detail", TextSchema(1, 0)),
		Must("code", TextSchema(1, 0)),
		Must("requestId", TextSchema(1, maxRequestID)),
		May("fields", ArrayOf(fieldErrorSchema())),
		May("shortage", ShortageSchema),
		May("budget", RefusalSchema),
	)),
)

func (r *Route) operation(draw *illustrator, key string) map[string]any {
	o := map[string]any{"operationId": r.Operation, "summary": r.Summary}
	if r.About != "" {
		o["description"], o["tags"] = r.About, []any{r.Tag}
	}
	parameters := []any{}
	for _, p := range r.Params {
		parameters = append(parameters, map[string]any{
			"in": p.In, "name": p.Name, "required": p.Required || p.In == "path",
			"schema": p.Schema.document(), "description": p.About,
		})
	}
	if len(parameters) > 0 {
		r.illustrateParameters(parameters)
		o["parameters"] = parameters
	}
	// Said for every operation: what is left out declares nothing, least of all that it is open.
	o["security"] = []any{}
	if r.Access != AccessOpen {
		o["security"] = []any{map[string]any{"bearer": []any{}}, map[string]any{"header": []any{}}}
	}
	if r.Body != nil {
		content := map[string]any{}
		for _, media := range r.Media {
			schema := r.Body
			if of := r.Bodies[media]; of != nil {
				schema = of
			}
			content[media] = map[string]any{"schema": schema.document()}
		}
		if len(r.Media) == 0 {
			content["application/json"] = map[string]any{"schema": r.Body.document()}
		}
		r.illustrateBody(content)
		o["requestBody"] = map[string]any{"required": !r.BodyOptional, "content": content}
	}
	answers := r.responses()
	draw.answers(r, answers)
	o["responses"] = answers
	if e := r.success(); e != nil {
		if r.Access == AccessOpen {
			key = ""
		}
		o["x-codeSamples"] = []any{map[string]any{
			"lang": "Shell", "label": "curl", "source": e.curl(key),
		}}
	}
	return o
}

func (r *Route) responses() map[string]any {
	answers := map[string]any{
		"default": map[string]any{
			"description": "Refused; nothing was changed unless the message says otherwise",
			"headers":     answerHeaders(),
			"content":     jsonContent(RefTo("Fault")),
		},
	}
	for _, response := range r.Responses {
		schema := response.Data
		if !response.Bare {
			properties := []Property{Must("success", BoolSchema)}
			if response.Data != nil {
				properties = append(properties, Must("data", response.Data))
			}
			if response.Paged {
				properties = append(properties, May("nextCursor", TextSchema(1, 0)))
			}
			schema = Object(properties...)
			if response.Status >= 400 {
				schema = RefTo("Fault")
			}
		}
		answers[strconv.Itoa(response.Status)] = map[string]any{
			"description": response.About,
			"headers":     answerHeaders(),
			"content":     contentOf(response.Media, schema),
		}
	}
	return answers
}

func contentOf(media string, s *Schema) map[string]any {
	if media == "" {
		return jsonContent(s)
	}
	return map[string]any{media: map[string]any{"schema": s.document()}}
}

func jsonContent(s *Schema) map[string]any {
	return map[string]any{"application/json": map[string]any{"schema": s.document()}}
}

func answerHeaders() map[string]any {
	return map[string]any{
		"X-Request-Id": map[string]any{
			"required": true, "schema": map[string]any{"type": "string"},
		},
	}
}
