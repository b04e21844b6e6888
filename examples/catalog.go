// Package examples holds what people begin with.
package examples

import _ "embed"

// Catalog is a small catalog document with comments, in YAML.
//
//go:embed catalog.yaml
var Catalog string
