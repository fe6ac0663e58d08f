//go:build linux

package sys

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// BPFLoad loads a BPF program: attr is the beginning of union bpf_attr for BPF_PROG_LOAD
// (include/uapi/linux/bpf.h), of size bytes. The descriptor is closed on exec.
func BPFLoad(attr unsafe.Pointer, size uintptr) (fd int, err error) {
	for range 5 { // the verifier may be interrupted: EAGAIN
		r, _, no := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_LOAD, uintptr(attr), size)
		if no == 0 {
			return int(r), nil
		}
		err = os.NewSyscallError("bpf(BPF_PROG_LOAD)", no)
		if no != unix.EAGAIN && no != unix.EINTR {
			break
		}
	}
	return -1, err
}
