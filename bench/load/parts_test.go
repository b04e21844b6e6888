package load

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestStacksBelongToParts: as `go tool pprof -traces` prints them.
func TestStacksBelongToParts(t *testing.T) {
	samples, err := traces(strings.NewReader(`File: tollgate
Type: cpu
Duration: 5.10s, Total samples = 3.14s (61.51%)
-----------+-------------------------------------------------------
      50ms   internal/runtime/syscall/linux.Syscall6
             syscall.RawSyscall6 (inline)
             net.(*conn).Write
             tollgate/server.(*conn).write (inline)
             github.com/valyala/fasthttp.(*Server).serveConnCounted
             github.com/valyala/fasthttp.(*Server).serveConn (inline)
-----------+-------------------------------------------------------
     1.02s   runtime.memmove
             github.com/valyala/fasthttp.(*Response).SetBody
             github.com/valyala/fasthttp.(*Server).serveConn (inline)
-----------+-------------------------------------------------------
      10ms   runtime.memmove
             github.com/valyala/fasthttp.(*Response).SetBody
             tollgate/server/client.(*API).check
             tollgate/server.(*Table).Serve
             github.com/valyala/fasthttp.(*Server).serveConn (inline)
-----------+-------------------------------------------------------
      20ms   tollgate/server.(*node).match
             github.com/valyala/fasthttp.(*Server).serveConn (inline)
-----------+-------------------------------------------------------
      20ms   crypto/internal/fips140/sha256.blockSHANI
             tollgate/server/client.(*API).authenticate
             github.com/valyala/fasthttp.(*Server).serveConn (inline)
-----------+-------------------------------------------------------
      30ms   tollgate/cluster.(*call).await
             tollgate/server/client.(*API).ingestEvent
             github.com/valyala/fasthttp.(*Server).serveConn (inline)
-----------+-------------------------------------------------------
      10ms   internal/runtime/syscall/linux.Syscall6
             tollgate/wal.syncData.func1
             tollgate/wal.(*Log).StoreLogs
             github.com/hashicorp/raft.(*Raft).leaderLoop
-----------+-------------------------------------------------------
      10ms   tollgate/engine/billing.(*state).prefetch
             tollgate/cluster.(*fsm).ApplyBatch
             github.com/hashicorp/raft.(*Raft).runFSM
-----------+-------------------------------------------------------
      10ms   crypto/tls.(*Conn).Write
             github.com/hashicorp/raft.sendRPC
             github.com/hashicorp/raft.(*Raft).replicateTo
-----------+-------------------------------------------------------
      10ms   github.com/hashicorp/raft.(*commitment).recalculate
             github.com/hashicorp/raft.(*Raft).leaderLoop
-----------+-------------------------------------------------------
      10ms   runtime.futex
             runtime.mcall
-----------+-------------------------------------------------------
      10ms   runtime.scanobject
             runtime.gcBgMarkWorker
-----------+-------------------------------------------------------
      10ms   tollgate/cluster/segments.order
             sync.(*WaitGroup).Go.func1
-----------+-------------------------------------------------------
      10ms   tollgate/engine/rollup.(*Tally).place (inline)
             tollgate/cluster/rollups.(*Store).Step
             tollgate/cluster.(*tiering).keepRollups
-----------+-------------------------------------------------------
      10ms   os.(*File).Write
             main.main
-----------+-------------------------------------------------------
`))
	require.NoError(t, err)
	for part, seconds := range samples {
		samples[part] = float64(int(seconds*1000 + 0.5))
	}
	require.Equal(t, map[string]float64{
		partSockets: 50, partFasthttp: 1020, partHandler: 10, partServer: 40, partPropose: 30,
		partLog: 10, partApply: 10, partBetween: 10, partLoops: 10, partScheduler: 10,
		partCollector: 10, partSegments: 10, partCounts: 10, partOther: 10,
	}, samples)
	require.Len(t, Parts, len(samples))
	_, err = traces(strings.NewReader("File: x\n"))
	require.ErrorContains(t, err, "no samples")
}
