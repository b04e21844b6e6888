package dev

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"tollgate/cmd/tollgate/config"
	"tollgate/examples/sampleproduct"
)

// sampleFlags are the product and the agents by which runs are tried out on one's own machine.
type sampleFlags struct {
	SampleProduct bool              `default:"true" negatable:"" help:"Serve a product to try flows on, in all its variants, on a port of its own."`
	SamplePort    int               `default:"0" help:"Port of the sample product; 0 is 8090, or any free one if that is taken."`
	Agent         map[string]string `placeholder:"NAME=PROGRAM" help:"Let a program run flows, in addition to the built-in agents; for a new folder."`
}

// localSite is something that this process serves on loopback.
type localSite struct {
	name   string
	server *http.Server
	ended  chan error
}

func serveLocal(name string, listener net.Listener, handler http.Handler) *localSite {
	s := &localSite{
		name: name,
		server: &http.Server{
			Handler: handler, ReadTimeout: 10 * time.Second,
			IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		},
		ended: make(chan error, 1),
	}
	go func() { s.ended <- s.server.Serve(listener) }()
	return s
}

// usualSamplePort is the sample product's, where it is free and no other was asked for.
const usualSamplePort = 8090

// serveSample serves the sample product on loopback and notes its port; nil where it is unwanted.
func (c *sampleFlags) serveSample() (*localSite, error) {
	if !c.SampleProduct {
		return nil, nil
	}
	listener, err := net.Listen("tcp", local(cmp.Or(c.SamplePort, usualSamplePort)))
	if err != nil && c.SamplePort == 0 {
		listener, err = net.Listen("tcp", local(0))
	}
	if err != nil {
		return nil, fmt.Errorf("the sample product cannot be served (choose another --sample-port): %w",
			err)
	}
	c.SamplePort = listener.Addr().(*net.TCPAddr).Port
	return serveLocal("sample product", listener, sampleproduct.Site()), nil
}

// close ends the site, and whatever it was answering.
func (s *localSite) close() error {
	if s == nil {
		return nil
	}
	err := s.server.Close()
	if ended := <-s.ended; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, fmt.Errorf("%s: %w", s.name, ended))
	}
	return err
}

// url is where the sample product is; empty where it is not served.
func (c *sampleFlags) url() string {
	if !c.SampleProduct {
		return ""
	}
	return "http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(c.SamplePort))
}

// engage lets the named programs run flows of a node.
func (c *sampleFlags) engage(w *config.Workspaces) error {
	for _, name := range slices.Sorted(maps.Keys(c.Agent)) {
		program, err := filepath.Abs(c.Agent[name])
		if err != nil {
			return fmt.Errorf("--agent %s: %w", name, err)
		}
		w.Agents = append(w.Agents, name)
		w.Commands = append(w.Commands, config.AgentCommand{
			Name: name, Version: "1", Command: []string{program},
		})
	}
	return nil
}

// sampleSummary says where the sample product is.
func (c *sampleFlags) sampleSummary() string {
	if !c.SampleProduct {
		return ""
	}
	return fmt.Sprintf("A product to try flows on is at %[1]s/good/; %[1]s/ lists its variants.\n"+
		"What an agent does with it: %[2]s tour.\n", c.url(), os.Args[0])
}
