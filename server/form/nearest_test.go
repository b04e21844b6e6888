package form

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNearest(t *testing.T) {
	known := []string{"externalClientCustomerId", "firstName", "lastName", "email", "to"}
	for name, want := range map[string]string{
		"id": "externalClientCustomerId", "first_name": "firstName", "FirstName": "firstName",
		"frstNme": "firstName", "emial": "email", "mail": "email", "last": "lastName",
		"name": "firstName", "x": "", "": "", "colour": "", "at": "",
	} {
		require.Equal(t, want, nearest(name, known), name)
	}
	require.Empty(t, nearest("anything", nil))
}
