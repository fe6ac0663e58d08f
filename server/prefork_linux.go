package server

import (
	"errors"
	"os"
	"syscall"
)

// ownGroup shields a child from the terminal's interrupt, which would look like a crash.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func setReusePort(_, _ string, conn syscall.RawConn) error {
	var failed error
	err := conn.Control(func(fd uintptr) {
		failed = os.NewSyscallError("setsockopt SO_REUSEPORT", syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, soReusePort, 1))
	})
	return errors.Join(err, failed)
}
