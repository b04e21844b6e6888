package torture

import (
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"
)

func event(key, units int, call, end int64, o outcome) porcupine.Operation {
	return porcupine.Operation{
		Input: input{kind: record, key: key, units: units}, Call: call,
		Output: output{outcome: o}, Return: end,
	}
}

func void(key, units int, call, end int64, o outcome) porcupine.Operation {
	return porcupine.Operation{
		Input: input{kind: takeBack, key: key, units: units}, Call: call,
		Output: output{outcome: o}, Return: end,
	}
}

// amends gives an event of 2 units 4.
func amends(key int, call, end int64, o outcome) porcupine.Operation {
	return porcupine.Operation{
		Input: input{kind: amend, key: key, units: 2, to: 4}, Call: call,
		Output: output{outcome: o}, Return: end,
	}
}

func sees(used int, allowed bool, call, end int64) porcupine.Operation {
	return porcupine.Operation{
		Input: input{kind: look}, Call: call,
		Output: output{outcome: read, used: used, allowed: allowed}, Return: end,
	}
}

// What the torture would have to find is found, and what is right is not called wrong.
func TestModelTellsRightFromWrong(t *testing.T) {
	const limit = 5
	for name, row := range map[string]struct {
		right   bool
		history []porcupine.Operation
	}{
		"in order": {true, []porcupine.Operation{
			event(0, 2, 0, 1, counted), sees(2, true, 2, 3), event(0, 2, 4, 5, duplicate),
			event(1, 4, 6, 7, overLimit), event(1, 3, 8, 9, atLimit), sees(5, false, 10, 11),
		}},
		"stale read":      {false, []porcupine.Operation{event(0, 2, 0, 1, counted), sees(0, true, 2, 3)}},
		"concurrent read": {true, []porcupine.Operation{event(0, 2, 0, 4, counted), sees(0, true, 2, 3)}},
		"lost": {false, []porcupine.Operation{
			event(0, 2, 0, 1, counted), event(1, 1, 2, 3, counted), sees(1, true, 4, 5),
		}},
		"counted twice": {false, []porcupine.Operation{
			event(0, 2, 0, 1, counted), event(0, 2, 2, 3, counted), sees(4, true, 4, 5),
		}},
		"past the limit": {false, []porcupine.Operation{
			event(0, 3, 0, 1, counted), event(1, 3, 2, 3, atLimit),
		}},
		"refused for nothing": {false, []porcupine.Operation{
			event(0, 3, 0, 1, counted), event(1, 1, 2, 3, overLimit),
		}},
		"duplicate of nothing": {false, []porcupine.Operation{event(0, 1, 0, 1, duplicate)}},
		"denied below the limit": {false, []porcupine.Operation{
			event(0, 1, 0, 1, counted), sees(1, false, 2, 3),
		}},
		"unknown, happened": {true, []porcupine.Operation{
			event(0, 2, 0, 1, unknown), sees(0, true, 2, 3), sees(2, true, 4, 5),
			event(0, 2, 6, 7, duplicate),
		}},
		"unknown, came to pass and went again": {false, []porcupine.Operation{
			event(0, 2, 0, 1, unknown), sees(2, true, 2, 3), sees(0, true, 4, 5),
			event(0, 2, 6, 7, duplicate),
		}},
		"unknown, never happened": {true, []porcupine.Operation{
			event(0, 2, 0, 1, unknown), sees(0, true, 2, 3), event(0, 2, 6, 7, counted),
			sees(2, true, 8, 9),
		}},
		"unknown, seen, and counted again": {false, []porcupine.Operation{
			event(0, 2, 0, 1, unknown), sees(2, true, 2, 3), event(0, 2, 6, 7, counted),
		}},
		"taken back": {true, []porcupine.Operation{
			event(0, 5, 0, 1, atLimit), event(1, 1, 2, 3, overLimit), void(0, 5, 4, 5, voided),
			sees(0, true, 6, 7), void(0, 5, 8, 9, voided), event(0, 5, 10, 11, duplicate),
			event(1, 1, 12, 13, counted), void(2, 1, 14, 15, absent),
		}},
		"taken back twice": {false, []porcupine.Operation{
			event(0, 2, 0, 1, counted), event(1, 2, 2, 3, counted), void(0, 2, 4, 5, voided),
			void(0, 2, 6, 7, voided), sees(0, true, 8, 9),
		}},
		"not taken back": {false, []porcupine.Operation{
			event(0, 2, 0, 1, counted), void(0, 2, 2, 3, voided), sees(2, true, 4, 5),
		}},
		"not found": {false, []porcupine.Operation{
			event(0, 2, 0, 1, counted), void(0, 2, 2, 3, absent),
		}},
		"taken back at some time": {true, []porcupine.Operation{
			event(0, 2, 0, 1, counted), void(0, 2, 2, 3, unknown), sees(2, true, 4, 5),
			sees(0, true, 6, 7), void(0, 2, 8, 9, voided),
		}},
		"amended": {true, []porcupine.Operation{
			amends(0, 0, 1, absent), event(0, 2, 2, 3, counted), amends(0, 4, 5, amended),
			sees(4, true, 6, 7), amends(0, 8, 9, amended), sees(4, true, 10, 11),
			event(1, 2, 12, 13, overLimit), event(0, 2, 14, 15, duplicate),
		}},
		"amended past the limit": {false, []porcupine.Operation{
			event(0, 2, 0, 1, counted), event(1, 2, 2, 3, counted), amends(0, 4, 5, amended),
		}},
		"no room for an amendment": {true, []porcupine.Operation{
			event(0, 2, 0, 1, counted), event(1, 2, 2, 3, counted), amends(0, 4, 5, overLimit),
			sees(4, true, 6, 7), void(1, 2, 8, 9, voided), amends(0, 10, 11, amended), sees(4, true, 12, 13),
		}},
		"amendment refused for nothing": {false, []porcupine.Operation{
			event(0, 2, 0, 1, counted), amends(0, 2, 3, overLimit),
		}},
		"amended twice": {false, []porcupine.Operation{
			event(0, 2, 0, 1, counted), amends(0, 2, 3, amended), amends(0, 4, 5, amended),
			sees(6, false, 6, 7),
		}},
		"not amended": {false, []porcupine.Operation{
			event(0, 2, 0, 1, counted), amends(0, 2, 3, amended), sees(2, true, 4, 5),
		}},
		"an amendment that came to pass and went again": {false, []porcupine.Operation{
			event(0, 2, 0, 1, counted), amends(0, 2, 3, unknown), sees(4, true, 4, 5),
			sees(2, true, 6, 7), amends(0, 8, 9, amended),
		}},
		"amended though taken back": {false, []porcupine.Operation{
			event(0, 2, 0, 1, counted), void(0, 2, 2, 3, voided), amends(0, 4, 5, amended),
		}},
		"amended, and taken back with that": {true, []porcupine.Operation{
			event(0, 2, 0, 1, counted), amends(0, 2, 3, unknown), sees(4, true, 4, 5),
			{Input: input{kind: takeBack, units: 2, to: 4}, Call: 6, Return: 7, Output: output{outcome: voided}},
			sees(0, true, 8, 9), amends(0, 10, 11, gone),
		}},
	} {
		got := porcupine.CheckOperations(model(feature{limit: limit}), settle(row.history))
		require.Equal(t, row.right, got, name)
	}
}
