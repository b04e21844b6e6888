package peer

import (
	"os"
	"syscall"
)

// endWithParent asks the kernel to end the program when the harness ends, however it ends.
func endWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGTERM }

// syncData makes a file's contents durable.
func syncData(file *os.File) error { return syscall.Fdatasync(int(file.Fd())) }
