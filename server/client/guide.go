package client

import _ "embed"

// guideText explains the operations.
//
//go:embed guide.md
var guideText string

// examples are requests of TestExamples, with their answers.
//
//go:embed examples/operations.json
var examples []byte
