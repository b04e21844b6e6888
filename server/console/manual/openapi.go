package manual

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// published is an OpenAPI document, as far as the reference shows it.
type published struct {
	Info struct {
		Title       string `json:"title"`
		Description string `json:"description"`
	} `json:"info"`
	Servers []host `json:"servers"`
	Tags    []struct {
		Name        string `json:"name"`
		Description string `json:"description"`
	} `json:"tags"`
	Paths      map[string]map[string]*described `json:"paths"`
	Components struct {
		Schemas  map[string]*schema `json:"schemas"`
		Examples map[string]example `json:"examples"`
	} `json:"components"`
}

type host struct {
	URL         string `json:"url"`
	Description string `json:"description"`
}

type described struct {
	ID          string           `json:"operationId"`
	Summary     string           `json:"summary"`
	Description string           `json:"description"`
	Tags        []string         `json:"tags"`
	Security    []jsontext.Value `json:"security"`
	Parameters  []struct {
		In          string  `json:"in"`
		Name        string  `json:"name"`
		Required    bool    `json:"required"`
		Description string  `json:"description"`
		Schema      *schema `json:"schema"`
	} `json:"parameters"`
	Body *struct {
		Required bool               `json:"required"`
		Content  map[string]content `json:"content"`
	} `json:"requestBody"`
	Responses map[string]struct {
		Description string             `json:"description"`
		Content     map[string]content `json:"content"`
	} `json:"responses"`
	Samples []struct {
		Source string `json:"source"`
	} `json:"x-codeSamples"`
}

type content struct {
	Schema   *schema            `json:"schema"`
	Examples map[string]example `json:"examples"`
}

type example struct {
	Ref     string         `json:"$ref"`
	Summary string         `json:"summary"`
	Value   jsontext.Value `json:"value"`
}

type schema struct {
	Ref         string             `json:"$ref"`
	Type        jsontext.Value     `json:"type"` // a name, or names
	Format      string             `json:"format"`
	Description string             `json:"description"`
	Enum        []string           `json:"enum"`
	OneOf       []*schema          `json:"oneOf"`
	Items       *schema            `json:"items"`
	Properties  map[string]*schema `json:"properties"`
	Required    []string           `json:"required"`
	MaxLength   int                `json:"maxLength"`
	Minimum     *float64           `json:"minimum"`
	Maximum     *float64           `json:"maximum"`
	Default     jsontext.Value     `json:"default"`
}

func readOpenAPI(text []byte) (*published, error) {
	p := &published{}
	if err := json.Unmarshal(text, p); err != nil {
		return nil, fmt.Errorf("manual: OpenAPI: %w", err)
	}
	return p, nil
}

// field is a row of a table: a parameter, or a member of an object.
type field struct {
	Name     string
	Required bool
	// Type is what it is; Before stands before it ("list of"), and Ref is where it is explained.
	Before, Type, Ref string
	About             string
}

const schemaPrefix = "#/components/schemas/"

// kind says what values a schema has; objects is the page of the shared ones.
func (s *schema) kind(objects string) (before, name, ref string) {
	switch {
	case s.Ref != "":
		name = strings.TrimPrefix(s.Ref, schemaPrefix)
		return "", name, objects + "#" + name
	case s.Items != nil:
		before, name, ref = s.Items.kind(objects)
		return "list of " + before, name, ref
	case len(s.OneOf) > 0:
		var names []string
		for _, choice := range s.OneOf {
			_, name, to := choice.kind(objects)
			names = append(names, name)
			if to != "" {
				ref = to
			}
		}
		return "", strings.Join(names, " or "), ref
	}
	var names []string
	if json.Unmarshal(s.Type, &names) != nil {
		var one string
		if json.Unmarshal(s.Type, &one) != nil {
			one = "any"
		}
		names = []string{one}
	}
	name = strings.Join(names, " or ")
	if s.Format != "" {
		name += " (" + s.Format + ")"
	}
	return "", name, ""
}

// about is what is said of a schema: its meaning, choices and bounds.
func (s *schema) about() string {
	var said []string
	add := func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }
	if s.Description != "" {
		add("%s", s.Description)
	}
	if len(s.Enum) > 0 {
		add("one of %s", strings.Join(s.Enum, ", "))
	}
	if s.MaxLength > 0 {
		add("up to %d characters", s.MaxLength)
	}
	switch {
	case s.Minimum != nil && s.Maximum != nil:
		add("%v to %v", *s.Minimum, *s.Maximum)
	case s.Minimum != nil:
		add("at least %v", *s.Minimum)
	case s.Maximum != nil:
		add("at most %v", *s.Maximum)
	}
	if len(s.Default) > 0 {
		add("%s where it is absent", s.Default)
	}
	return strings.Join(said, "; ")
}

// fields are the members of a schema, those within others under their path. What has a page of its
// own is named.
func (s *schema) fields(objects string) []field { return s.append(nil, "", objects) }

func (s *schema) append(all []field, path, objects string) []field {
	if s.Items != nil && s.Items.Ref == "" {
		return s.Items.append(all, path+"[]", objects)
	}
	if s.Ref != "" || len(s.Properties) == 0 {
		if path == "" || path == "[]" {
			f := field{Name: "the whole"}
			f.Before, f.Type, f.Ref = s.kind(objects)
			f.About = s.about()
			return append(all, f)
		}
		return all
	}
	names := slices.Sorted(maps.Keys(s.Properties))
	slices.SortStableFunc(names, func(a, b string) int {
		has := func(name string) int {
			if slices.Contains(s.Required, name) {
				return 0
			}
			return 1
		}
		return has(a) - has(b)
	})
	for _, name := range names {
		member := s.Properties[name]
		f := field{
			Name: strings.TrimPrefix(path+"."+name, "."), Required: slices.Contains(s.Required, name),
			About: member.about(),
		}
		f.Before, f.Type, f.Ref = member.kind(objects)
		all = member.append(append(all, f), path+"."+name, objects)
	}
	return all
}

// indented is a value as people read it.
func indented(v jsontext.Value) string {
	if v.Kind() == '"' {
		if text, err := jsontext.AppendUnquote(nil, v); err == nil {
			return string(text)
		}
	}
	pretty := slices.Clone(v)
	if pretty.Indent(jsontext.WithIndent("  ")) != nil {
		return string(v)
	}
	return string(pretty)
}
