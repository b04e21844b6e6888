package admin_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"tollgate/server"
	"tollgate/server/admin"
)

// TestEveryRouteHasItsOwnMetrics: in a table that is larger than any of ours, and while many ask
// for the first time.
func TestEveryRouteHasItsOwnMetrics(t *testing.T) {
	const count = 1000
	routes := make([]server.Route, count)
	for i := range routes {
		routes[i] = server.Route{
			Method: "GET", Path: fmt.Sprintf("/%d", i), Operation: fmt.Sprintf("op%d", i),
			Handle: func(*server.Exchange) {},
		}
	}
	table, err := server.NewTable(routes, server.TableConfig{})
	require.NoError(t, err)
	metrics := admin.NewMetrics()
	observe := metrics.Observer("all")
	const callers = 4
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for i := range count {
				route, known := table.Operation(fmt.Sprintf("op%d", i))
				if !known {
					t.Error("no route", i)
					return
				}
				observe(route, 200, time.Millisecond)
			}
			observe(nil, 404, time.Millisecond)
		})
	}
	all.Wait()
	families, err := metrics.Registry().Gather()
	require.NoError(t, err)
	counted := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetType() == dto.MetricType_COUNTER && len(m.GetLabel()) == 3 {
				for _, label := range m.GetLabel() {
					if label.GetName() == "operation" || label.GetName() == "route" {
						counted[label.GetValue()] += m.GetCounter().GetValue()
					}
				}
			}
		}
	}
	require.Len(t, counted, count+1)
	for operation, times := range counted {
		require.EqualValues(t, callers, times, operation)
	}
}
