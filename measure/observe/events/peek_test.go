package events

import "syscall"

const errAgain = syscall.EAGAIN

// peek looks at the first byte of a socket without taking it.
func peek(fd int) error {
	var b [1]byte
	_, _, err := syscall.Recvfrom(fd, b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	return err
}
