package prefetch

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// pageBytes is the size of a page. A kernel with larger ones may refuse what Populate asks for.
const pageBytes = 4 << 10

// Populate asks the kernel for the pages of memory that is about to be written, all with one call.
// A page that is first written without it costs a fault, several times as much. Errors,
// such as those before Linux 5.14, are ignored: each page then costs its fault.
func Populate(b []byte) {
	from := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) % pageBytes)
	if n := (len(b) - from) / pageBytes * pageBytes; n > 0 {
		_ = unix.Madvise(b[from:from+n], unix.MADV_POPULATE_WRITE)
	}
}
