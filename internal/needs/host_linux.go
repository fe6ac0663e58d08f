package needs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
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

// Disk is for a test that fills a disk: it mounts one of so many bytes, and returns its directory.
func Disk(t testing.TB, size int) string {
	t.Helper()
	Root(t)
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprint("size=", size)); err != nil {
		t.Fatalf("mount a tmpfs: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

// Fill leaves no byte on a disk.
func Fill(t testing.TB, dir string) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "fill"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 16; size > 0; {
		if _, err := f.Write(make([]byte, size)); errors.Is(err, syscall.ENOSPC) {
			size /= 2
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
