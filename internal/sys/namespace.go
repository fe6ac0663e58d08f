//go:build linux

package sys

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// InNetworkNamespaceAt runs f on its own thread, which has joined the network namespace of a file
// (/run/netns/NAME, /proc/PID/ns/net) and has a sysfs mount of it: /sys shows the namespace it was
// mounted in. In /proc only the calling thread's own files show it: /proc/sys/net and
// /proc/thread-self/net. The thread ends with f. It requires CAP_SYS_ADMIN. f's error is returned
// unchanged.
func InNetworkNamespaceAt(path string, f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never released: the thread ends with the goroutine
		if err := enter(path); err != nil {
			done <- fmt.Errorf("join network namespace %s: %w", path, err)
			return
		}
		done <- f()
	}()
	return <-done
}

func enter(path string) error {
	there, err := os.Open(path)
	if err != nil {
		return err
	}
	defer there.Close()
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	// Without this the mount below would affect every process.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return os.NewSyscallError("mount", err)
	}
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		return os.NewSyscallError("setns", err)
	}
	return os.NewSyscallError("mount", unix.Mount("sysfs", "/sys", "sysfs", 0, ""))
}

// Mount is the source of a mounted file system, from a line of /proc/PID/mountinfo.
type Mount struct {
	Kind   string // "ext4", "overlay", "nfs4"
	Source string // "/dev/sda1", "server:/export"
	Upper  string // of an overlay: the directory that receives the writes; else ""
}

// MountOf finds the mount of a device number in /proc/PID/mountinfo (proc(5)), the only place that
// names the source of file systems whose numbers are no block device's (btrfs, overlay, network
// file systems).
func MountOf(text []byte, major, minor uint32) (Mount, bool) {
	c := Cursor{Text: text}
	for {
		line, ok := c.Line()
		if !ok {
			return Mount{}, false
		}
		l := Cursor{Text: line}
		l.Skip(2)
		number := Cursor{Text: l.Word()}
		if v, n := LeadingDecimal(number.Text); n == 0 || v != uint64(major) || n >= len(number.Text) || number.Text[n] != ':' {
			continue
		} else if v, m := LeadingDecimal(number.Text[n+1:]); m == 0 || v != uint64(minor) || n+1+m != len(number.Text) {
			continue
		}
		_, after, ok := strings.Cut(string(line), " - ")
		kind := strings.Fields(after)
		if !ok || len(kind) < 2 {
			continue
		}
		m := Mount{Kind: kind[0], Source: unescapeMount(kind[1])}
		if m.Kind == "overlay" && len(kind) > 2 {
			for option := range strings.SplitSeq(kind[2], ",") {
				if dir, is := strings.CutPrefix(option, "upperdir="); is {
					m.Upper = unescapeMount(dir)
				}
			}
		}
		return m, true
	}
}
