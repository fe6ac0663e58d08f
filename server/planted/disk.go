package planted

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// A slow disk is our own file system (FUSE) with one file, whose sync takes a planted time: real
// disks take 60 µs to 10 ms, depending on the host, and on some machines return at once. A second
// process serves the disk. In the syncing process itself it would hang on kill -9: the kernel
// waits for the reply to a request that was read (fs/fuse/dev.c, request_wait_answer), and no
// thread would be left to send it.
const (
	diskEnv = "CEILING_PLANTED_DISK" // duration of a sync

	fuseFD   = 3
	diskRoom = 64 << 10 // read size; the kernel requires at least 8 KiB

	fuseMajor, fuseMinor = 7, 31 // version of 5.4, whose replies these are
	maxWrite             = 4096

	diskBlock = 4096
	diskBytes = 1 << 20 // overwritten from the start again

	// diskPatience is how long the process of a disk waits to be mounted: its parent may have been killed.
	diskPatience = 10 * time.Second

	rootNode, logNode = 1, 2
	fsRootMode        = 0o40700
	fsLogMode         = 0o100600
)

// Operations and a flag of include/uapi/linux/fuse.h.
const (
	fuseLookup      = 1
	fuseForget      = 2
	fuseGetattr     = 3
	fuseOpen        = 14
	fuseRead        = 15
	fuseWrite       = 16
	fuseRelease     = 18
	fuseFsync       = 20
	fuseFlush       = 25
	fuseInit        = 26
	fuseInterrupt   = 36
	fuseBatchForget = 42

	openDirectIO = 1
)

// TrySlowDisk returns why a slow disk is impossible here; nil if it is possible.
func TrySlowDisk() error {
	if os.Geteuid() != 0 {
		return errors.New("a file system of one's own takes root")
	}
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

// newSlowDisk opens a file whose sync takes that long. The disk ends when the file is closed, or
// the process exits.
func newSlowDisk(sync time.Duration) (*os.File, error) {
	dev, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("a slow disk: %w", err)
	}
	defer dev.Close() // then only the child has it: its exit aborts pending requests
	child := exec.Command("/proc/self/exe", os.Args[1:]...)
	child.Env = append(os.Environ(), diskEnv+"="+sync.String())
	child.ExtraFiles, child.Stderr = []*os.File{dev}, os.Stderr
	if err := child.Start(); err != nil {
		return nil, err
	}
	go func() { _ = child.Wait() }() // the file's users get the error
	var file *os.File
	opened := make(chan error, 1)
	// A thread of its own mounts, in a namespace of its own, and exits with the file open: no mount is ever visible to
	// others. A process started by this thread would keep the namespace.
	go func() {
		runtime.LockOSThread()
		dir := os.TempDir()
		err := mountFUSE(dev, dir)
		if err == nil {
			file, err = os.OpenFile(filepath.Join(dir, "log"), os.O_RDWR, 0)
		}
		opened <- err
	}()
	if err := <-opened; err != nil {
		return nil, fmt.Errorf("a slow disk: %w", errors.Join(err, child.Process.Kill()))
	}
	return file, nil
}

// mountFUSE mounts over dir, in this thread's namespace only.
func mountFUSE(dev *os.File, dir string) error {
	if err := syscall.Unshare(syscall.CLONE_NEWNS); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return os.NewSyscallError("mount", err)
	}
	options := fmt.Sprintf("fd=%d,rootmode=%o,user_id=0,group_id=0", dev.Fd(), fsRootMode)
	return os.NewSyscallError("mount", syscall.Mount("ceiling", dir, "fuse", syscall.MS_NODEV|syscall.MS_NOSUID, options))
}

// isDisk reports whether this process serves a slow disk.
func isDisk() bool { return os.Getenv(diskEnv) != "" }

// serveDisk answers the kernel until the file system is gone.
func serveDisk() error {
	sync, err := time.ParseDuration(os.Getenv(diskEnv))
	if err != nil {
		return err
	}
	dev := os.NewFile(fuseFD, "/dev/fuse")
	buffer, started := make([]byte, diskRoom), time.Now()
	for {
		n, err := dev.Read(buffer)
		switch {
		case errors.Is(err, syscall.ENODEV), errors.Is(err, fs.ErrClosed):
			return nil // the file is closed
		case errors.Is(err, syscall.EPERM) && time.Since(started) < diskPatience: // not mounted yet
			time.Sleep(time.Millisecond)
			continue
		case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.EINTR):
			continue // the request was aborted
		case err != nil:
			return err
		}
		answer := diskAnswer(buffer[:n], sync)
		if answer == nil {
			continue
		}
		if _, err := dev.Write(answer); err != nil && !errors.Is(err, syscall.ENOENT) {
			return err
		}
	}
}

// diskAnswer returns the reply to a request, nil if none is expected. Syncs are served one at a
// time, as on a single disk.
func diskAnswer(request []byte, sync time.Duration) []byte {
	const headIn, headOut = 40, 16
	if len(request) < headIn {
		return nil
	}
	native := binary.NativeEndian
	op, node, body := native.Uint32(request[4:]), native.Uint64(request[16:]), request[headIn:]
	answer := make([]byte, headOut, 160)
	u32 := func(v ...uint32) {
		for _, n := range v {
			answer = native.AppendUint32(answer, n)
		}
	}
	u64 := func(v ...uint64) {
		for _, n := range v {
			answer = native.AppendUint64(answer, n)
		}
	}
	attributes := func(node uint64) { // struct fuse_attr: inode, size, blocks, 3 times, 3 of ns, …
		mode, size := uint32(fsRootMode), uint64(0)
		if node == logNode {
			mode, size = fsLogMode, diskBytes
		}
		u64(node, size, 0, 0, 0, 0)
		u32(0, 0, 0, mode, 1, 0, 0, 0, maxWrite, 0)
	}
	failure := syscall.Errno(0)
	switch op {
	case fuseForget, fuseBatchForget, fuseInterrupt:
		return nil
	case fuseInit:
		u32(fuseMajor, fuseMinor, 0, 0, 0, maxWrite, 1, 0, 0)
		answer = append(answer, make([]byte, 7*4)...)
	case fuseLookup:
		if string(body) != "log\x00" {
			failure = syscall.ENOENT
			break
		}
		u64(logNode, 0, 0, 0)
		u32(0, 0)
		attributes(logNode)
	case fuseGetattr:
		u64(0)
		u32(0, 0)
		attributes(node)
	case fuseOpen:
		u64(0)
		u32(openDirectIO, 0)
	case fuseRead: // no data is stored
		answer = append(answer, make([]byte, min(native.Uint32(body[16:]), diskRoom))...)
	case fuseWrite:
		u32(native.Uint32(body[16:]), 0)
	case fuseFsync:
		time.Sleep(sync)
	case fuseFlush, fuseRelease:
	default:
		failure = syscall.ENOSYS
	}
	native.PutUint32(answer, uint32(len(answer)))
	native.PutUint32(answer[4:], uint32(-int32(failure)))
	copy(answer[8:16], request[8:16])
	return answer
}

// serveSync makes every request write to one file and wait for its sync, as a database with a log
// does.
func serveSync(ctx context.Context, p *Params, ready func(string)) error {
	if isDisk() {
		return serveDisk()
	}
	f, err := newSlowDisk(p.Sleep)
	if err != nil {
		return err
	}
	defer f.Close()
	block, at := make([]byte, diskBlock), int64(0)
	var log sync.Mutex
	return serveHTTP(ctx, p, ready, func(w http.ResponseWriter, _ *http.Request) {
		log.Lock()
		_, err := f.WriteAt(block, at)
		if err == nil {
			err = f.Sync()
		}
		at = (at + diskBlock) % diskBytes
		log.Unlock()
		reply(w, err)
	})
}
