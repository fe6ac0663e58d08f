//go:build linux

package stacks

import (
	"fmt"
	"net/netip"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"

	"ceiling/internal/sys"
)

// object is the target of a system call.
type object struct {
	kind string // "tcp", "unix", "file", "pipe", "other"; "": unknown
	// name: the address of the other end, a path.
	name string
	// local end of a connection.
	local netip.AddrPort
	// remote end, of TCP.
	remote netip.AddrPort
	// accepted: for a unix socket, the other end connected to this one.
	accepted bool
	// pid of the process at the other end, if the kernel reports it (unix).
	pid int
	// device that holds a file.
	device string
}

// takesFD reports whether a system call's first argument is a descriptor. poll counts if it was
// called for one.
func takesFD(call int64) bool {
	switch call {
	case syscall.SYS_READ, syscall.SYS_WRITE, syscall.SYS_PREAD64, syscall.SYS_PWRITE64, syscall.SYS_READV, syscall.SYS_WRITEV,
		syscall.SYS_RECVFROM, syscall.SYS_RECVMSG, syscall.SYS_SENDTO, syscall.SYS_SENDMSG, syscall.SYS_CONNECT, syscall.SYS_ACCEPT,
		syscall.SYS_ACCEPT4,
		syscall.SYS_FSYNC, syscall.SYS_FDATASYNC, syscall.SYS_FLOCK, syscall.SYS_FCNTL, syscall.SYS_SYNC_FILE_RANGE, syscall.SYS_FTRUNCATE,
		syscall.SYS_SENDFILE, syscall.SYS_IOCTL, syscall.SYS_GETDENTS64, pollNumber:
		return call >= 0
	}
	return false
}

// objectOf looks up what a descriptor of a process is now.
func objectOf(pid, fd int) object {
	link := fmt.Sprintf("/proc/%d/fd/%d", pid, fd)
	name, err := os.Readlink(link)
	if err != nil {
		return object{}
	}
	switch {
	case strings.HasPrefix(name, "socket:"):
		return socketOf(pid, fd)
	case strings.HasPrefix(name, "pipe:"):
		return object{kind: "pipe", name: "a pipe"}
	case !strings.HasPrefix(name, "/"):
		return object{kind: "other", name: strings.TrimPrefix(name, "anon_inode:")}
	}
	o := object{kind: "file", name: printable(name)}
	if info, err := os.Stat(link); err == nil {
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			o.device = deviceOf(uint64(st.Dev))
		}
	}
	return o
}

// deviceOf returns the name of a block device; "" for a file system without one.
func deviceOf(dev uint64) string {
	major, minor := dev>>8&0xfff, dev&0xff|dev>>12&0xfff00
	link, err := os.Readlink("/sys/dev/block/" + strconv.FormatUint(major, 10) + ":" + strconv.FormatUint(minor, 10))
	if err != nil {
		return ""
	}
	return path.Base(link)
}

// socketOf reads the socket's ends from a duplicate.
func socketOf(pid, fd int) object {
	o := object{kind: "other", name: "a socket"}
	own, err := sys.CopyFD(pid, fd)
	if err != nil {
		return o
	}
	defer syscall.Close(own)
	local, err := syscall.Getsockname(own)
	if err != nil {
		return o
	}
	remote, err := syscall.Getpeername(own)
	if err != nil {
		remote = nil // it is listening, or not connected yet
	}
	switch at := local.(type) {
	case *syscall.SockaddrUnix:
		o.kind, o.name = "unix", unixName(at)
		o.accepted = o.name != "" && remote != nil
		if to, ok := remote.(*syscall.SockaddrUnix); ok && unixName(to) != "" {
			o.name = to.Name
		}
		if cred, err := syscall.GetsockoptUcred(own, syscall.SOL_SOCKET, syscall.SO_PEERCRED); err == nil && remote != nil {
			o.pid = int(cred.Pid)
		}
		if o.name == "" {
			o.name = "a unix socket"
		}
		o.name = printable(o.name)
	default:
		o.local, o.remote = addrPort(local), addrPort(remote)
		if o.local.IsValid() {
			o.kind = "tcp"
		}
		if o.remote.IsValid() {
			o.name = o.remote.String()
		}
	}
	return o
}

// unixName returns the name of a unix socket, "" if it has none. Go calls that "@", the prefix of
// an abstract name.
func unixName(a *syscall.SockaddrUnix) string {
	if a.Name == "@" {
		return ""
	}
	return a.Name
}

// addrPort converts an internet address; invalid for any other.
func addrPort(a syscall.Sockaddr) netip.AddrPort {
	switch a := a.(type) {
	case *syscall.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
	case *syscall.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr).Unmap(), uint16(a.Port))
	}
	return netip.AddrPort{}
}

// printable removes from a foreign name what would disturb a terminal.
func printable(name string) string {
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, name)
	return name[:min(len(name), 400)]
}
