package prefork

import (
	"errors"
	"os"
	"syscall"
)

// soReusePort is SO_REUSEPORT of include/uapi/asm-generic/socket.h, which package syscall lacks on amd64.
const soReusePort = 0xf

// ownGroup shields a child from the terminal's interrupt, which would look like a crash.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func setReusePort(_, _ string, conn syscall.RawConn) error {
	var failed error
	err := conn.Control(func(fd uintptr) { failed = ReusePort(int(fd)) })
	return errors.Join(err, failed)
}

// ReusePort lets a socket share its port with others of the same user.
func ReusePort(fd int) error {
	return os.NewSyscallError("setsockopt SO_REUSEPORT", syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, soReusePort, 1))
}
