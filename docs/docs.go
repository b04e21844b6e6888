// Package docs holds the documents for people who use Tollgate, as every node serves them at /docs.
package docs

import "embed"

// Files are the documents, in Markdown, and their pictures: README.md is the first page.
//
//go:embed *.md concepts guides pictures
var Files embed.FS
