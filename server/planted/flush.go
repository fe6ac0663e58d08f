package planted

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// A slow block device is a loop device over the file of a slow disk (disk.go): a flush of the
// device is a sync of that file. The kernel's disk counters are then predictable: so many
// requests cause so many flushes, of the planted time each.

// From include/uapi/linux/loop.h. struct loop_config is a descriptor, a block size and a struct
// loop_info64, whose flags are at loopFlagsAt.
const (
	loopConfigure = 0x4C0A // Linux 5.8
	loopGetFree   = 0x4C82
	loopAutoclear = 4 // detached when closed, or when the process exits

	loopConfigBytes = 304
	loopFlagsAt     = 60

	// loopTries limits the retries after losing the free device to another process.
	loopTries = 8
)

// TrySlowDevice returns why a slow block device is impossible here; nil if it is possible.
func TrySlowDevice() error {
	if err := TrySlowDisk(); err != nil {
		return err
	}
	f, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

// newSlowDevice opens a block device whose flush takes that long. It ends when it is closed, or
// the process exits.
func newSlowDevice(flush time.Duration) (*os.File, error) {
	disk, err := newSlowDisk(flush)
	if err != nil {
		return nil, err
	}
	defer disk.Close() // the device keeps it open
	for range loopTries {
		f, err := openLoop(disk)
		if errors.Is(err, syscall.EBUSY) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("a slow block device: %w", err)
		}
		return f, nil
	}
	return nil, fmt.Errorf("a slow block device: others took the free loop device %d times", loopTries)
}

// openLoop creates a loop device over a file.
func openLoop(of *os.File) (*os.File, error) {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer control.Close()
	n, _, errno := syscall.Syscall(syscall.SYS_IOCTL, control.Fd(), loopGetFree, 0)
	if errno != 0 {
		return nil, os.NewSyscallError("LOOP_CTL_GET_FREE", errno)
	}
	f, err := os.OpenFile(fmt.Sprintf("/dev/loop%d", n), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	config := make([]byte, loopConfigBytes)
	binary.NativeEndian.PutUint32(config, uint32(of.Fd()))
	binary.NativeEndian.PutUint32(config[4:], diskBlock)
	binary.NativeEndian.PutUint32(config[loopFlagsAt:], loopAutoclear)
	_, _, errno = syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), loopConfigure, uintptr(unsafe.Pointer(&config[0])))
	runtime.KeepAlive(of)
	if errno != 0 {
		return nil, errors.Join(os.NewSyscallError("LOOP_CONFIGURE", errno), f.Close())
	}
	return f, nil
}

// serveFlush makes every request write a block and wait until it is flushed to the device.
func serveFlush(ctx context.Context, p *Params, ready func(string)) error {
	if isDisk() {
		return serveDisk()
	}
	f, err := newSlowDevice(p.Sleep)
	if err != nil {
		return err
	}
	defer f.Close()
	block, places := make([]byte, diskBlock), make(chan struct{}, max(p.N, 1))
	var at atomic.Int64
	return serveHTTP(ctx, p, ready, func(w http.ResponseWriter, _ *http.Request) {
		places <- struct{}{}
		_, err := f.WriteAt(block, at.Add(1)%(diskBytes/diskBlock)*diskBlock)
		if err == nil {
			err = f.Sync()
		}
		<-places
		reply(w, err)
	})
}
