package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// floodOrder is the first thing that ServeFlood reads. The Key is apart, as no Config prints it.
type floodOrder struct {
	Config Config
	Key    string
}

// What ServeFlood is told next, one after the other.
const (
	floodBegin  = "begin"
	floodEnd    = "end"
	floodVerify = "verify"
)

// floodAnswer answers the order, floodEnd and floodVerify.
type floodAnswer struct {
	Report Report
	// Error says what went wrong. Refused reports whether the cluster counted wrongly.
	Error   string
	Refused bool
}

// ServeFlood puts on the batches of a Flood as its Command: it creates the customers of the order
// that it reads, floods from "begin" to "end", answers with a Report, and verifies the counters.
func ServeFlood(ctx context.Context, in io.Reader, out io.Writer) error {
	orders, answers := json.NewDecoder(in), json.NewEncoder(out)
	var order floodOrder
	if err := orders.Decode(&order); err != nil {
		return fmt.Errorf("read the order: %w", err)
	}
	order.Config.Key = order.Key
	r, err := New(order.Config)
	if err == nil {
		r.name += "flood"
		err = r.createCustomers(ctx)
	}
	if err != nil {
		return errors.Join(err, answers.Encode(floodAnswer{Error: err.Error()}))
	}
	if err = answers.Encode(floodAnswer{}); err != nil {
		return err
	}
	if err = told(orders, floodBegin); err != nil {
		return err
	}
	report, err := r.measure(ctx, func(context.Context, time.Time) error {
		return told(orders, floodEnd)
	})
	if err != nil {
		return err
	}
	if err = answers.Encode(floodAnswer{Report: report}); err != nil {
		return err
	}
	if err = told(orders, floodVerify); err != nil {
		return err
	}
	var answer floodAnswer
	if v, err := r.verify(ctx); err != nil {
		answer = floodAnswer{Error: unlike(v, err).Error(), Refused: true}
	}
	return answers.Encode(answer)
}

// told waits for a word.
func told(orders *json.Decoder, want string) error {
	var word string
	if err := orders.Decode(&word); err != nil {
		return fmt.Errorf("wait for %q: %w", want, err)
	}
	if word != want {
		return fmt.Errorf("got %q: want %q", word, want)
	}
	return nil
}

// flooder is the other side of ServeFlood.
type flooder struct {
	orders  *json.Encoder
	answers *json.Decoder
	stop    func() error
}

// start begins a ServeFlood, and waits until it has its customers.
func (f *Flood) start(ctx context.Context) (*flooder, error) {
	orders, answers, wait, err := f.serve(ctx)
	if err != nil {
		return nil, fmt.Errorf("start the flood: %w", err)
	}
	one := &flooder{orders: json.NewEncoder(orders), answers: json.NewDecoder(answers)}
	one.stop = func() error {
		// A flooder that waits for an order, or for room for an answer, gets an error.
		return errors.Join(orders.Close(), answers.Close(), wait())
	}
	if err = one.orders.Encode(floodOrder{f.Batches, f.Batches.Key}); err != nil {
		err = fmt.Errorf("order the flood: %w", err)
	} else {
		_, err = one.answer()
	}
	if err != nil {
		return nil, errors.Join(err, one.stop())
	}
	return one, nil
}

// serve runs ServeFlood: what it reads, what it writes, and how it ended.
func (f *Flood) serve(ctx context.Context) (
	orders io.WriteCloser, answers io.ReadCloser, wait func() error, err error,
) {
	if len(f.Command) == 0 {
		in, orders := io.Pipe()
		answers, out := io.Pipe()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			err := ServeFlood(ctx, in, out)
			in.CloseWithError(io.ErrClosedPipe)
			out.CloseWithError(err)
		}()
		return orders, answers, func() error { <-ended; return nil }, nil
	}
	command := exec.CommandContext(ctx, f.Command[0], f.Command[1:]...)
	command.Stderr = os.Stderr
	if orders, err = command.StdinPipe(); err != nil {
		return nil, nil, nil, err
	}
	if answers, err = command.StdoutPipe(); err != nil {
		return nil, nil, nil, err
	}
	return orders, answers, command.Wait, command.Start()
}

func (f *flooder) tell(word string) error {
	if err := f.orders.Encode(word); err != nil {
		return fmt.Errorf("tell the flood %q: %w", word, err)
	}
	return nil
}

func (f *flooder) ask(word string) (Report, error) {
	if err := f.tell(word); err != nil {
		return Report{}, err
	}
	return f.answer()
}

func (f *flooder) answer() (Report, error) {
	var answer floodAnswer
	err := f.answers.Decode(&answer)
	switch {
	case err != nil:
		err = fmt.Errorf("hear of the flood: %w", err)
	case answer.Refused:
		err = refuse("%s", answer.Error)
	case answer.Error != "":
		err = errors.New(answer.Error)
	}
	return answer.Report, err
}
