package main

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench"
)

func TestServeBareRepeatsTheAnswer(t *testing.T) {
	in, feed := io.Pipe()
	addresses, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- bench.ServeBare(in, out) }()
	_, err := io.WriteString(feed, `{"Status":201,"Body":"eyJzdWNjZXNzIjp0cnVlfQ=="}`)
	require.NoError(t, err)
	var address [64]byte
	n, err := addresses.Read(address[:])
	require.NoError(t, err)

	response, err := http.Post("http://"+strings.TrimSpace(string(address[:n])), "application/json",
		bytes.NewReader([]byte("{}")))
	require.NoError(t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, 201, response.StatusCode)
	require.JSONEq(t, `{"success":true}`, string(body))
	http.DefaultClient.CloseIdleConnections()

	require.NoError(t, feed.Close())
	require.NoError(t, <-ended)
}

func TestMedian(t *testing.T) {
	require.InDelta(t, 2, median([]float64{9, 1, 2}), 0)
}
