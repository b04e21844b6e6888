package segments

import (
	"bytes"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/faultfs"
)

// TestSegmentsGoPastThePageCache: files are written past it, and segments read whole past it.
// Listings, which may come again, read through it.
func TestSegmentsGoPastThePageCache(t *testing.T) {
	disk := faultfs.New()
	h := open(t, "/segments", Options{FS: disk})
	info := h.seal()
	var lock sync.Mutex
	type way struct {
		kind     faultfs.Kind
		uncached bool
	}
	ways := map[way]int{}
	disk.Inject(func(op faultfs.Op) error {
		reads := op.Kind == faultfs.KindRead && strings.HasSuffix(op.Name, ".seg")
		if reads || op.Kind == faultfs.KindWrite {
			lock.Lock()
			defer lock.Unlock()
			ways[way{op.Kind, op.Uncached}]++
		}
		return nil
	})
	past := func(kind faultfs.Kind, uncached bool, what string, do func() error) {
		t.Helper()
		lock.Lock()
		clear(ways)
		lock.Unlock()
		require.NoError(t, do(), what)
		lock.Lock()
		defer lock.Unlock()
		require.NotZero(t, ways[way{kind, uncached}], what)
		require.Zero(t, ways[way{kind, !uncached}], what)
	}
	durable := func() error { return h.store.WaitDurable(t.Context(), h.journal.Manifest()) }
	require.NoError(t, durable())
	past(faultfs.KindWrite, true, "writing", func() error {
		h.seal()
		return durable()
	})
	seg := h.store.lookup(info)
	become := func(s state) {
		seg.lock.Lock()
		defer seg.lock.Unlock()
		seg.state = s
	}
	past(faultfs.KindRead, true, "comparing", func() error {
		become(absent)
		h.store.Put(h.sealed[0])
		return durable()
	})
	past(faultfs.KindRead, true, "checking", func() error {
		become(unchecked)
		return durable()
	})
	past(faultfs.KindRead, true, "Read", func() error {
		data, err := h.store.Read(info.Part, info.Number)
		require.True(t, bytes.Equal(h.sealed[0].Data, data))
		return err
	})
	past(faultfs.KindRead, true, "Lend", func() error {
		return h.store.Lend(info.Part, info.Number, func([]byte) error { return nil })
	})
	past(faultfs.KindRead, true, "Copy", func() error {
		_, err := h.store.Copy(info)
		return err
	})
	past(faultfs.KindRead, false, "a listing", func() error {
		_, err := h.store.List(everything)
		return err
	})
	require.NoError(t, h.store.Close())
	past(faultfs.KindRead, true, "scrubbing", func() error {
		h.store.scrubOne(info)
		return nil
	})
}
