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

// Resident reports whether the last whole page of b is in memory. All of b is then, where it is a
// large allocation that is still unwritten: Go clears memory that it uses again as a whole, and
// leaves memory that it got from the kernel as it is, without pages.
func Resident(b []byte) bool {
	end := int(uintptr(unsafe.Pointer(unsafe.SliceData(b)))+uintptr(len(b))) % pageBytes
	if len(b) < end+pageBytes {
		return false
	}
	var state byte
	page := unsafe.Pointer(&b[len(b)-end-pageBytes])
	_, _, errno := unix.Syscall(unix.SYS_MINCORE,
		uintptr(page), pageBytes, uintptr(unsafe.Pointer(&state)))
	return errno == 0 && state&1 == 1
}
