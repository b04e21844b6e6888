package wal

import "os"

// Held is how many records a cache holds, and their size.
func (c *Cache) Held() (entries int, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count, c.bytes
}

// DirectFile is the way of an uncached file past the page cache.
type DirectFile = directFile

// Direct is an uncached file's descriptor past the page cache, nil if it has none.
func Direct(f File) *os.File {
	direct, _ := f.(uncachedFile).direct.(*os.File)
	return direct
}

// OpenedUncached is an open file as an uncached one.
func OpenedUncached(f *os.File, flag int) (File, error) { return uncached(f, flag) }

// Uncached is a file of the operating system's FS as an uncached one with that way, nil for none.
func Uncached(f File, direct DirectFile) File { return uncachedFile{f.(osFile), direct} }
