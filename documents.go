// Package tollgate holds the documents at the root of the source: every node serves them.
package tollgate

import _ "embed"

// Changelog is CHANGELOG.md, what changed for clients and operators.
//
//go:embed CHANGELOG.md
var Changelog string

// Security is SECURITY.md, the threats, the defences and their limits.
//
//go:embed SECURITY.md
var Security string
