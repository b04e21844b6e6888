package workspaceapi

import _ "embed"

// What is said of the operations, and examples: requests of TestExamples and TestEveryEndpoint with
// their answers, refusals of TestEveryRefusal, and operators' requests of TestEveryToolIsRecorded.
var (
	//go:embed guide.md
	guideText string
	//go:embed operators.md
	operatorGuide string
	//go:embed examples/people.json
	peopleExamples []byte
	//go:embed examples/operations.json
	examples []byte
	//go:embed examples/refusals.json
	refusalExamples []byte
	//go:embed examples/operators.json
	operatorExamples []byte
)
