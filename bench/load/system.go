package load

import (
	"context"
	"errors"
	"time"
)

// System is something that records events and answers checks over HTTP: Tollgate, or what people
// use in its place behind a thin front that takes the same requests.
type System interface {
	// Name is short, and the same in every report.
	Name() string
	// Start runs the system in a new folder, on ports of its own on 127.0.0.1, and returns how it
	// is reached. A front answers with the bytes of answers.
	Start(ctx context.Context, answers Answers) (Target, error)
	// Stop ends every process that Start began, and removes the folder.
	Stop() error
}

// Native is a System that comes with tools for measuring it.
type Native interface {
	// Tools are what its users would measure the scenario with, against the started system.
	Tools(Scenario) []Tool
}

// Tool is a system's own tool.
type Tool struct {
	Name string
	// Prepare does what is not measured; it may be nil.
	Prepare func(ctx context.Context) error
	// Run returns how many operations it had carried out, and its rate: operations a second.
	Run func(ctx context.Context) (operations, rate float64, err error)
}

// Target is how a running system is reached, and what may be asked of it.
type Target struct {
	// System is its name.
	System string
	// Nodes are host:port of client APIs; connections are shared out among them evenly.
	Nodes []string
	// Key is an API key of scope full. It is in no report.
	Key string `json:"-"`
	// Processes are those of the system, where they run on this machine: the processor time and the
	// memory of each are reported, and none of them may end during a run.
	Processes []Process
	// Admin is what ScenarioClose moves the clock through.
	Admin Admin
	// Blank reports whether the system keeps nothing: there is nothing to create, and nothing to
	// verify.
	Blank bool
	// Unaudited reports whether checks leave no audit events.
	Unaudited bool
	// Syncs counts what each node has made durable so far, by node; nil where nothing is.
	Syncs func(context.Context) (map[string]uint64, error) `json:"-"`
	// Profile has each of Processes profile itself for so long; nil where nodes are asked for it.
	Profile func(ctx context.Context, lasts time.Duration) ([][]byte, error) `json:"-"`
	// Faults ends processes of the system; nil where they are not the harness's to end.
	Faults Faults `json:"-"`
}

// Process is one process of a system.
type Process struct {
	Name string
	PID  int
}

// Answer is a status and a body.
type Answer struct {
	Status int
	Body   []byte
}

// Answers are what a cluster answers to the requests that are measured. Fronts and the bare handler
// repeat their bytes, so that HTTP costs all systems the same.
type Answers struct {
	// Check and Simulate hold the count twice, behind `"used":`. Limit refuses an event.
	Check, Simulate, Event, Duplicate, Limit, Batch Answer
}

// DefaultAnswers are answers of a cluster, for if none is measured in the same run.
func DefaultAnswers() Answers {
	return Answers{
		Check: Answer{200, []byte(`{"success":true,"data":{"referenceCustomerId":"b0000000-0000001",` +
			`"featureKey":"requests","isAllowed":true,"meta":{"reason":{"code":"allowed",` +
			`"rule":"none of the rules denies",` +
			`"subscriptionId":"01a1ff10-8c6e-7275-8ecc-5d9d3967beda","used":2,"logIndex":23}},` +
			`"usage":{"used":2}}}`)},
		Simulate: Answer{200, []byte(`{"success":true,"data":{"referenceCustomerId":` +
			`"b0000000-0000001","featureKey":"requests","isAllowed":true,"meta":{"reason":` +
			`{"code":"allowed","rule":"none of the rules denies","subscriptionId":` +
			`"01a1ff10-8c6e-7275-8ecc-5d9d3967beda","used":2,"logIndex":23}},"usage":{"used":2},` +
			`"simulation":{"requestedUsage":3,"projectedUsage":5,"wouldExceedLimit":false}}}`)},
		Event: Answer{201, []byte(`{"success":true}`)},
		Duplicate: Answer{409, []byte(`{"success":false,"error":{"message":"This idempotency key ` +
			`was already processed","detail":"The repeat was ignored: the usage event counts once.",` +
			`"code":"duplicate_key"}}`)},
		Limit: Answer{402, []byte(`{"success":false,"error":{"message":"The usage event would ` +
			`exceed the feature's hard limit","detail":"Nothing was recorded, and its key may be ` +
			`used again.","code":"limit_exceeded"}}`)},
		Batch: Answer{200, []byte(`{"success":true,"data":{"results":[{"index":0,"status":201}],` +
			`"accepted":1,"duplicates":0,"rejected":0}}`)},
	}
}

// Learn replaces the answer to the run's scenario by the one that the run's first node gives.
// Do must have made the customers before.
func (a *Answers) Learn(r *Run) error {
	answer, err := r.Sample()
	if err != nil {
		return err
	}
	switch r.Scenario {
	case ScenarioCheck:
		a.Check = answer
	case ScenarioSimulate:
		a.Simulate = answer
	case ScenarioIngest:
		a.Event = answer
	case ScenarioBatch:
		a.Batch = answer
	}
	return nil
}

// Sample sends one request of the run's scenario to the first node, and returns its answer, for
// a front to repeat. Do must have made the customers before.
func (r *Run) Sample() (Answer, error) {
	w := &worker{Run: r, connection: newConnection(r.Nodes[0])}
	t := w.template(-1) // no worker has this number: its keys are its own
	t.setCustomer(0, 0)
	if len(t.keys) > 0 {
		for i := range t.keys {
			t.setCustomer(i, 0)
			t.setKey(i, uint64(i))
		}
	}
	status, body, err := w.do(t.bytes)
	return Answer{status, append([]byte(nil), body...)}, errors.Join(err, w.close())
}
