//go:build linux

package sys

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// An Alarm wakes a goroutine on time. A timer of the runtime is up to a millisecond late when the
// process is otherwise idle, because the runtime then waits in epoll_wait(2), which counts
// milliseconds (runtime/netpoll_epoll.go); a timerfd_create(2) ends that wait by itself.
type Alarm struct{ file *os.File }

// NewAlarm holds one file descriptor until Close.
func NewAlarm() (Alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return Alarm{}, os.NewSyscallError("timerfd_create", err)
	}
	return Alarm{os.NewFile(uintptr(fd), "timer")}, nil
}

// Wait returns when d has passed. One goroutine at a time may wait.
func (a Alarm) Wait(d time.Duration) error {
	if d <= 0 {
		return nil
	}
	raw, err := a.file.SyscallConn()
	if err != nil {
		return err
	}
	var unset error
	if err := raw.Control(func(fd uintptr) {
		unset = unix.TimerfdSettime(int(fd), 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}, nil)
	}); err != nil {
		return err
	}
	if unset != nil {
		return os.NewSyscallError("timerfd_settime", unset)
	}
	var times [8]byte
	_, err = a.file.Read(times[:])
	return err
}

// Close closes the descriptor; it does nothing for an Alarm that could not be created.
func (a Alarm) Close() { _ = a.file.Close() }
