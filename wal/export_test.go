package wal

// Held is how many records a cache holds, and their size.
func (c *Cache) Held() (entries int, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count, c.bytes
}
