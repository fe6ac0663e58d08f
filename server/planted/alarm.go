package planted

import (
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"
)

// An alarm is a timerfd. Go's own timers end up to 1 ms late in an idle
// process, because its poller counts whole milliseconds (runtime/
// netpoll_epoll.go), which would plant another hold time than the one asked
// for; a descriptor that becomes readable wakes it at once.
type alarm struct{ file *os.File }

// itimerspec of include/uapi/linux/time.h.
type itimerspec struct{ interval, value syscall.Timespec }

func newAlarm() (*alarm, error) {
	const monotonic = 1
	fd, _, errno := syscall.Syscall(syscall.SYS_TIMERFD_CREATE, monotonic, syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	if errno != 0 {
		return nil, os.NewSyscallError("timerfd_create", errno)
	}
	return &alarm{os.NewFile(fd, "alarm")}, nil
}

// wait blocks the goroutine, not its thread, for d. One goroutine at a time
// may wait. It ends early, with an error, when the alarm is closed.
func (a *alarm) wait(d time.Duration) error {
	if d <= 0 {
		return nil
	}
	conn, err := a.file.SyscallConn()
	if err != nil {
		return err
	}
	spec := itimerspec{value: syscall.NsecToTimespec(int64(d))}
	var errno syscall.Errno
	err = conn.Control(func(fd uintptr) {
		_, _, errno = syscall.Syscall6(syscall.SYS_TIMERFD_SETTIME, fd, 0, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
	})
	if err != nil {
		return err
	}
	if errno != 0 {
		return os.NewSyscallError("timerfd_settime", errno)
	}
	var count [8]byte
	if _, err := a.file.Read(count[:]); err != nil {
		return fmt.Errorf("wait for alarm: %w", err)
	}
	return nil
}

func (a *alarm) close() error { return a.file.Close() }

// newAlarms makes n of them, in a channel to take them from and put them back.
func newAlarms(n int) (chan *alarm, error) {
	alarms := make(chan *alarm, n)
	for range n {
		a, err := newAlarm()
		if err != nil {
			closeAlarms(alarms)
			return nil, err
		}
		alarms <- a
	}
	return alarms, nil
}

// closeAlarms closes those that nobody has taken.
func closeAlarms(alarms chan *alarm) {
	for {
		select {
		case a := <-alarms:
			_ = a.close() // a timer has nothing to lose
		default:
			return
		}
	}
}
