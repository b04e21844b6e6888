package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/valyala/fasthttp"
)

// Answer is what a bare handler answers to everything: the yardstick of what HTTP alone costs with
// the library that the cluster uses too.
type Answer struct {
	Status int
	Body   []byte
}

// Sample sends one request of the run's scenario to the first node, and returns its answer, for a
// bare handler to repeat. Do must have made the customers before.
func (r *Run) Sample() (Answer, error) {
	w := &worker{Run: r, connection: newConnection(r.Nodes[0])}
	t := w.template(r.Connections) // no worker has this number: its keys are its own
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

// Bare measures a bare handler at the address with the run's scenario and connections. There is
// nothing to create, and nothing to verify.
func (r *Run) Bare(ctx context.Context, address string) (Report, error) {
	bare := &Run{
		Config: r.Config, name: r.name, occurredAt: r.occurredAt, acknowledged: r.acknowledged,
		unknown: r.unknown, checks: r.checks,
	}
	bare.Nodes, bare.Processes = []string{address}, nil
	report := Report{Config: bare.Config, Name: bare.name}
	workers, err := bare.load(ctx, &report)
	if err != nil {
		return report, err
	}
	bare.collect(workers, &report)
	bare.problems(&report)
	if len(report.Errors) > 0 {
		err = fmt.Errorf("the bare handler failed: %v", report.Errors)
	}
	return report, err
}

// ServeBare answers everything with the Answer that it reads from in, as JSON, on a port of its own
// on 127.0.0.1; it writes the address to out and returns when in ends. It runs in a process of its
// own, as a node does.
func ServeBare(in io.Reader, out io.Writer) error {
	var answer Answer
	decoder := json.NewDecoder(in)
	if err := decoder.Decode(&answer); err != nil {
		return fmt.Errorf("bare handler: %w", err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("bare handler: %w", err)
	}
	server := &fasthttp.Server{
		NoDefaultServerHeader: true, CloseOnShutdown: true,
		Handler: func(ctx *fasthttp.RequestCtx) {
			h := &ctx.Response.Header
			ctx.Response.SetStatusCode(answer.Status)
			h.SetContentType("application/json")
			h.Set("X-Request-Id", "req_0123456789abcdef01234567")
			ctx.Response.SetBody(answer.Body)
		},
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	if _, err = fmt.Fprintln(out, ln.Addr()); err == nil {
		_, err = io.Copy(io.Discard, in)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	stopped := server.ShutdownWithContext(ctx)
	if errors.Is(stopped, context.DeadlineExceeded) {
		return err // the other end is gone, and this process ends with it
	}
	return errors.Join(err, stopped, <-served)
}
