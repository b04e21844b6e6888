// Package licenses has the notices of the software that the programs are built from: what its
// licenses ask to be handed on with every copy.
package licenses

import _ "embed"

// Notices lists each module of the build with its version, and its license texts. The test makes it
// from the module list, and says when that has changed.
//
//go:embed notices.txt
var Notices string
