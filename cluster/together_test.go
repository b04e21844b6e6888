package cluster

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTogetherWaitsForAll(t *testing.T) {
	first, second := make(chan struct{}), make(chan struct{})
	failed := errors.New("a part")
	err := Together(func() error {
		close(first)
		<-second
		return nil
	}, func() error {
		<-first // both run at once
		close(second)
		return failed
	})
	require.ErrorIs(t, err, failed)
	require.NoError(t, Together())
	done := false
	require.PanicsWithValue(t, "a part", func() {
		_ = Together(func() error { panic("a part") }, func() error {
			done = true
			return nil
		})
	})
	require.True(t, done)
}
