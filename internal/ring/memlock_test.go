//go:build linux

package ring

import (
	"errors"
	"math"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const memlockEnv = "CEILING_TEST_MEMLOCK"

// TestNoMemoryForARing: a process that may lock no memory gets epoll where any engine
// will do, with the reason in words, and one line that says how to mend it where
// io_uring was asked for. Kernels that do not count rings grant them.
func TestNoMemoryForARing(t *testing.T) {
	if os.Getenv(memlockEnv) != "" {
		withoutLockedMemory(t)
		return
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestNoMemoryForARing$", "-test.v")
	cmd.Env = append(os.Environ(), memlockEnv+"=1")
	if os.Geteuid() == 0 { // without CAP_IPC_LOCK
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		cmd.Dir = "/"
	}
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil || !strings.Contains(string(out), "--- PASS: TestNoMemoryForARing") {
		t.Error(err)
	}
}

func withoutLockedMemory(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: 4096, Max: 4096}); err != nil {
		t.Fatal(err)
	}
	r, refused := Open(Config{Engine: Uring})
	if refused == nil {
		t.Log("this kernel does not count rings")
		if err := r.Shut(); err != nil {
			t.Error(err)
		}
	} else if errors.Is(refused, syscall.ENOMEM) && !strings.Contains(refused.Error(), "may lock 4 KiB") {
		t.Error(refused)
	}
	r, err := Open(Config{Engine: Auto})
	if err != nil {
		t.Fatal(err)
	}
	if refused != nil && (r.Engine() != Epoll || r.Why() != refused.Error()) {
		t.Errorf("%s: %s; io_uring says %v", r.Engine(), r.Why(), refused)
	}
	t.Logf("%s: %s", r.Engine(), r.Why())
	if err := r.Shut(); err != nil {
		t.Error(err)
	}
}

// TestSetupError: the limit is named where it may be the reason, and only there.
func TestSetupError(t *testing.T) {
	for _, c := range []struct {
		errno syscall.Errno
		limit uint64
		named bool
	}{{syscall.ENOMEM, 8 << 20, true}, {syscall.ENOMEM, math.MaxUint64, false}, {syscall.EPERM, 8 << 20, false}} {
		err := setupError(c.errno, c.limit)
		if !errors.Is(err, c.errno) || strings.Contains(err.Error(), "ulimit -l") != c.named || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v of %d: %v", c.errno, c.limit, err)
		}
	}
}
