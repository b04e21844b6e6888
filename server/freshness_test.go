package server_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/servertest"
	"tollgate/server"
)

// A ticket of a lease that a sleep has ended proves nothing: another is taken.
func TestFreshAsksWhetherTheTicketStands(t *testing.T) {
	c := &servertest.Cluster{}
	soon := time.Now().Add(time.Minute)
	require.True(t, server.Fresh(c, soon))
	require.EqualValues(t, 1, c.Reads.Load())
	c.Fickle.Store(3)
	require.True(t, server.Fresh(c, soon))
	require.EqualValues(t, 1+4, c.Reads.Load())
	c.Fickle.Store(3)
	require.False(t, server.Fresh(c, time.Now()), "it is late")
	c.Fickle.Store(0)
	c.NoLeader.Store(true)
	require.False(t, server.Fresh(c, soon))
}
