package wal

import (
	"sync"

	"github.com/hashicorp/raft"
)

// cachedOverheadBytes is the cost of a cached record in addition to its payload: the raft.Log and
// its slot.
const cachedOverheadBytes = 128

// Cache keeps the newest records of a log store in memory, bounded in bytes (raft's own LogCache
// counts records, whose sizes differ by three orders of magnitude). All methods may be called from
// any goroutine. It retains the records that it is given; as with raft's own cache, callers must
// not change them afterwards.
type Cache struct {
	store raft.LogStore
	limit int64

	mu    sync.Mutex
	ring  []*raft.Log // consecutive indexes from first on, beginning at ring[head]
	head  int
	count int
	first uint64
	bytes int64 // of these records, at most limit
}

var (
	_ raft.LogStore          = (*Cache)(nil)
	_ raft.MonotonicLogStore = (*Cache)(nil)
)

// NewCache puts a cache of at most limitBytes in front of store. With 0 or less it keeps nothing.
func NewCache(store raft.LogStore, limitBytes int64) *Cache {
	return &Cache{store: store, limit: limitBytes}
}

// IsMonotonic is the store's.
func (c *Cache) IsMonotonic() bool {
	m, ok := c.store.(raft.MonotonicLogStore)
	return ok && m.IsMonotonic()
}

// FirstIndex is the store's.
func (c *Cache) FirstIndex() (uint64, error) { return c.store.FirstIndex() }

// LastIndex is the store's.
func (c *Cache) LastIndex() (uint64, error) { return c.store.LastIndex() }

// GetLog answers from memory, else from the store.
func (c *Cache) GetLog(index uint64, log *raft.Log) error {
	c.mu.Lock()
	if c.count > 0 && index >= c.first && index-c.first < uint64(c.count) {
		*log = *c.ring[(c.head+int(index-c.first))%len(c.ring)]
		c.mu.Unlock()
		return nil
	}
	c.mu.Unlock()
	return c.store.GetLog(index, log)
}

// StoreLog is StoreLogs with one record.
func (c *Cache) StoreLog(log *raft.Log) error { return c.StoreLogs([]*raft.Log{log}) }

// StoreLogs stores and then keeps the records, if storing succeeded.
func (c *Cache) StoreLogs(logs []*raft.Log) error {
	if err := c.store.StoreLogs(logs); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, log := range logs {
		c.push(log)
	}
	return nil
}

// DeleteRange forgets and then deletes. Records outside the range stay in memory only where they
// are still contiguous.
func (c *Cache) DeleteRange(lowest, highest uint64) error {
	c.mu.Lock()
	for c.count > 0 && c.first <= highest && c.first >= lowest {
		c.popFirst()
	}
	if c.count > 0 && lowest <= c.first+uint64(c.count)-1 && highest >= c.first {
		c.clear()
	}
	c.mu.Unlock()
	return c.store.DeleteRange(lowest, highest)
}

func (c *Cache) push(log *raft.Log) {
	if c.count > 0 && log.Index != c.first+uint64(c.count) {
		c.clear()
	}
	size := cachedBytes(log)
	for c.count > 0 && c.bytes+size > c.limit {
		c.popFirst()
	}
	if size > c.limit {
		return
	}
	if c.count == len(c.ring) {
		c.grow()
	}
	if c.count == 0 {
		c.first = log.Index
	}
	c.ring[(c.head+c.count)%len(c.ring)] = log
	c.count++
	c.bytes += size
}

func (c *Cache) popFirst() {
	c.bytes -= cachedBytes(c.ring[c.head])
	c.ring[c.head] = nil
	c.head = (c.head + 1) % len(c.ring)
	c.first++
	c.count--
}

func (c *Cache) clear() {
	c.ring, c.head, c.count, c.bytes = nil, 0, 0, 0
}

func (c *Cache) grow() {
	ring := make([]*raft.Log, max(64, 2*len(c.ring)))
	for i := range c.count {
		ring[i] = c.ring[(c.head+i)%len(c.ring)]
	}
	c.ring, c.head = ring, 0
}

func cachedBytes(log *raft.Log) int64 {
	return int64(len(log.Data)) + int64(len(log.Extensions)) + cachedOverheadBytes
}
