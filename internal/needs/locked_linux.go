package needs

import (
	"os"
	"syscall"
	"testing"
)

// lockedMost is what the rings of a package's tests lock together at most, in bytes.
const lockedMost = 256 << 20

// LockedMemory is for a test that opens io_uring rings: those of all processes of a user other than
// root count against RLIMIT_MEMLOCK together (8 MiB by default, which ten rings use up).
func LockedMemory(t testing.TB) {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(rlimitMemlock, &limit); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 && limit.Cur < lockedMost {
		t.Skip(Prefix + "ulimit -l 262144")
	}
}

// rlimitMemlock is RLIMIT_MEMLOCK (include/uapi/asm-generic/resource.h), which syscall lacks.
const rlimitMemlock = 8
