package fetch

// Free reports whether so many bytes more could be read now.
func (b *Bodies) Free(bytes int64) bool {
	if !b.room.TryAcquire(bytes) {
		return false
	}
	b.room.Release(bytes)
	return true
}
