// Package demo holds the catalog that `tollgate dev` applies and that `tollgate replay` takes its
// plan from.
package demo

import (
	_ "embed"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// Catalog is the demo's catalog document, in YAML.
//
//go:embed catalog.yaml
var Catalog []byte

// ReplayPlan is the key of the plan that metering a trace subscribes customers to.
const ReplayPlan = "llm-team"

// Document is a catalog document as far as choosing from it needs: whatever else its plans and
// features say is carried along as it was written.
type Document struct {
	Features []map[string]any `yaml:"features"`
	Plans    []map[string]any `yaml:"plans"`
}

// Parse reads a catalog document in YAML or JSON.
func Parse(text []byte) (Document, error) {
	var d Document
	if err := yaml.Unmarshal(text, &d); err != nil {
		return Document{}, fmt.Errorf("catalog document: %w", err)
	}
	return d, nil
}

// Only returns the document with nothing but the plan of that key and the features it names. A
// feature that the document does not describe gets its key as its name.
func (d Document) Only(plan string) (Document, error) {
	for _, p := range d.Plans {
		if p["key"] != plan {
			continue
		}
		links, _ := p["features"].([]any)
		only := Document{Plans: []map[string]any{p}}
		for _, link := range links {
			fields, _ := link.(map[string]any)
			only.Features = append(only.Features, d.feature(fields["key"]))
		}
		return only, nil
	}
	return Document{}, fmt.Errorf("catalog document: no plan %q in it", plan)
}

func (d Document) feature(key any) map[string]any {
	for _, f := range d.Features {
		if f["key"] == key {
			return f
		}
	}
	return map[string]any{"key": key, "name": key}
}

// YAML writes the document.
func (d Document) YAML() ([]byte, error) {
	text, err := yaml.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("catalog document: %w", err)
	}
	return text, nil
}
