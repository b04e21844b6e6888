package limits_test

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// log is a file that is made durable at each append.
type log struct{ file *os.File }

// openLog reserves the file's blocks, so that its length never changes.
func openLog(t testing.TB, name string) *log {
	f, err := os.Create(filepath.Join(t.TempDir(), name))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	require.NoError(t, syscall.Fallocate(int(f.Fd()), 0, 0, 1<<30))
	return &log{f}
}

func (l *log) append(b []byte) error {
	if _, err := l.file.Write(b); err != nil {
		return err
	}
	return syscall.Fdatasync(int(l.file.Fd()))
}

// follow appends each frame that a leader sends, and says so by a byte.
func follow(conn net.Conn, l *log) {
	var frame []byte
	var length [4]byte
	for {
		if _, err := io.ReadFull(conn, length[:]); err != nil {
			return
		}
		n := int(binary.LittleEndian.Uint32(length[:]))
		if cap(frame) < n {
			frame = make([]byte, n)
		}
		if _, err := io.ReadFull(conn, frame[:n]); err != nil {
			return
		}
		if l.append(frame[:n]) != nil {
			return
		}
		if _, err := conn.Write(length[:1]); err != nil {
			return
		}
	}
}

// group makes what its clients give it durable at a majority of three files.
type group struct {
	own       *log
	followers [2]net.Conn
	acks      chan struct{}

	mu      sync.Mutex
	waiting []byte
	more    chan struct{}
	done    chan struct{} // closed when what waits is durable
}

func newGroup(b *testing.B) *group {
	g := &group{
		own: openLog(b, "leader"), acks: make(chan struct{}, 1024), more: make(chan struct{}, 1),
		done: make(chan struct{}),
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	for i := range g.followers {
		g.followers[i], err = net.Dial("tcp", ln.Addr().String())
		require.NoError(b, err)
		conn, err := ln.Accept()
		require.NoError(b, err)
		l := openLog(b, "follower")
		go follow(conn, l)
		go func() {
			var ack [1]byte
			for {
				if _, err := io.ReadFull(g.followers[i], ack[:]); err != nil {
					return
				}
				g.acks <- struct{}{}
			}
		}()
	}
	require.NoError(b, ln.Close())
	b.Cleanup(func() {
		for _, conn := range g.followers {
			require.NoError(b, conn.Close())
		}
	})
	return g
}

// commit waits until b is durable.
func (g *group) commit(b []byte) {
	g.mu.Lock()
	g.waiting = append(g.waiting, b...)
	done := g.done
	g.mu.Unlock()
	select {
	case g.more <- struct{}{}:
	default:
	}
	<-done
}

// lead commits what waits, one frame at a time, until stop is closed; of the two acknowledgements
// of a frame it waits for one, as a majority does, and for those of frames before that.
func (g *group) lead(b *testing.B, stop chan struct{}) (frames int) {
	var frame []byte
	outstanding := 0
	for {
		select {
		case <-g.more:
		case <-stop:
			return frames
		}
		g.mu.Lock()
		frame = append(append(frame[:0], 0, 0, 0, 0), g.waiting...)
		done := g.done
		g.waiting, g.done = g.waiting[:0], make(chan struct{})
		g.mu.Unlock()
		binary.LittleEndian.PutUint32(frame, uint32(len(frame)-4))
		for _, conn := range g.followers {
			if _, err := conn.Write(frame); err != nil {
				b.Error(err)
				return frames
			}
		}
		if err := g.own.append(frame); err != nil {
			b.Error(err)
			return frames
		}
		for outstanding += 2; outstanding > 1; outstanding-- {
			<-g.acks
		}
		frames++
		close(done)
	}
}

// BenchmarkDurableFloor has clients that each wait for an event, or for a batch of a thousand, of
// 180 bytes.
func BenchmarkDurableFloor(b *testing.B) {
	const eventBytes = 180
	for _, row := range []struct {
		name           string
		clients, batch int
	}{{"event", 256, 1}, {"batch", 8, 1000}} {
		b.Run(row.name, func(b *testing.B) {
			g := newGroup(b)
			stop, ended := make(chan struct{}), make(chan int)
			go func() { ended <- g.lead(b, stop) }()
			asked := make(chan struct{}, 4*row.clients)
			var clients sync.WaitGroup
			report := perUnit(b, row.batch)
			for range row.clients {
				clients.Go(func() {
					payload := make([]byte, eventBytes*row.batch)
					for range asked {
						g.commit(payload)
					}
				})
			}
			for range b.N {
				asked <- struct{}{}
			}
			close(asked)
			clients.Wait()
			report()
			close(stop)
			frames := <-ended
			b.ReportMetric(b.Elapsed().Seconds()*1e6/float64(max(frames, 1)), "µs/commit")
			b.ReportMetric(float64(b.N*row.batch)/float64(max(frames, 1)), "events/commit")
		})
	}
}
