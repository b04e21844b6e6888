package dev

import (
	"net"
	"net/http"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
)

// Plain `tollgate dev` has a product to try flows on, wherever there is a port for it.
func TestDevServesTheSampleProduct(t *testing.T) {
	parse := func(args ...string) *Command {
		var c struct {
			Dev Command `cmd:""`
		}
		parser, err := kong.New(&c)
		require.NoError(t, err)
		_, err = parser.Parse(append([]string{"dev"}, args...))
		require.NoError(t, err)
		return &c.Dev
	}
	plain := parse()
	require.True(t, plain.SampleProduct)
	for range 2 { // the second finds the usual port taken
		dev := *plain
		site, err := dev.serveSample()
		require.NoError(t, err)
		defer func() { require.NoError(t, site.close()) }()
		answer, err := http.Get(dev.url() + "/good/")
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, 200, answer.StatusCode)
	}
	none := parse("--no-sample-product")
	require.Empty(t, none.url())
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, taken.Close()) }()
	_, port, err := net.SplitHostPort(taken.Addr().String())
	require.NoError(t, err)
	_, err = parse("--sample-port", port).serveSample()
	require.ErrorContains(t, err, "--sample-port", "one that was asked for is that one, or none")
}
