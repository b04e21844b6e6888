package wal

// Held is how many records a cache holds, and their size.
func (c *Cache) Held() (entries int, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count, c.bytes
}

// DirectFile is the way of an uncached file past the page cache.
type DirectFile = directFile

// Uncached is a file of the operating system's FS as an uncached one with that way, nil for none.
func Uncached(f File, direct DirectFile) File { return uncachedFile{f.(osFile), direct} }
