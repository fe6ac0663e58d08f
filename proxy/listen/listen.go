// Package listen opens the sockets that a proxy serves: TCP ports with a queue for each loop, unix
// sockets, and those that systemd has opened.
package listen

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"ceiling/internal/ring"
	"ceiling/proxy/config"
)

// Address is where a proxy listens.
type Address struct {
	netip.AddrPort
	Name string // of what is no host:port; "" for others
}

func (a Address) String() string {
	if a.Name != "" {
		return a.Name
	}
	return a.AddrPort.String()
}

// Listen opens n listeners on one address, and returns it with its actual port; the kernel distributes
// new connections over them by a hash of their addresses (SO_REUSEPORT, socket(7)). Of a unix socket,
// or one from systemd, there is one queue, which all take from.
func Listen(address string, n int) (fds []int, at Address, err error) {
	switch {
	case strings.HasPrefix(address, config.UnixListener):
		fd, err := listenUnix(strings.TrimPrefix(address, config.UnixListener))
		if err != nil {
			return nil, at, err
		}
		return duplicates(fd, n, Address{Name: address})
	case strings.HasPrefix(address, config.SystemdListener):
		fd, err := inherited(strings.TrimPrefix(address, config.SystemdListener))
		if err != nil {
			return nil, at, err
		}
		return duplicates(fd, n, Address{Name: address})
	}
	if at.AddrPort, err = listenAddress(address); err != nil {
		return nil, at, err
	}
	probe, _, err := ring.ListenTCP(at.AddrPort, 1, false) // another program sharing the port would take part of the clients
	if err != nil {
		return nil, at, err
	}
	_ = syscall.Close(probe)
	for range n {
		fd, bound, err := ring.ListenTCP(at.AddrPort, backlog, true)
		if err != nil {
			closeAll(fds)
			return nil, at, err
		}
		fds, at.AddrPort = append(fds, fd), bound // choose port 0 only once
	}
	return fds, at, nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = syscall.Close(fd)
	}
}

// duplicates returns n descriptors of one listener, which it takes.
func duplicates(fd, n int, at Address) ([]int, Address, error) {
	fds := []int{fd}
	for len(fds) < n {
		another, err := duplicate(fd)
		if err != nil {
			closeAll(fds)
			return nil, at, err
		}
		fds = append(fds, another)
	}
	return fds, at, nil
}

// duplicate returns another descriptor, which programs that are started do not get.
func duplicate(fd int) (int, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	another, err := syscall.Dup(fd)
	if err != nil {
		return -1, os.NewSyscallError("dup", err)
	}
	syscall.CloseOnExec(another)
	return another, nil
}

// listenUnix listens on a socket that every user may connect to: its directory decides who can. It
// replaces a socket that nothing listens on any more, and nothing else.
func listenUnix(path string) (int, error) {
	fail := func(err error) (int, error) { return -1, fmt.Errorf("listen %s%s: %w", config.UnixListener, path, err) }
	if info, err := os.Lstat(path); err == nil {
		if info.Mode().Type() != os.ModeSocket {
			return fail(errors.New("the file is not a socket"))
		}
		c, err := net.Dial("unix", path)
		if err == nil {
			c.Close()
			return fail(syscall.EADDRINUSE)
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return fail(err)
		}
		if err := os.Remove(path); err != nil {
			return fail(err)
		}
	}
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return fail(err)
	}
	err = errors.Join(syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}), os.Chmod(path, 0o666), syscall.Listen(fd, backlog))
	if err != nil {
		_ = syscall.Close(fd)
		return fail(err)
	}
	return fd, nil
}

// firstInherited is the first descriptor that systemd passes (sd_listen_fds(3)).
const firstInherited = 3

// inherited returns a duplicate of a listening socket from systemd, by its name or number.
func inherited(name string) (int, error) {
	n, err := strconv.Atoi(os.Getenv("LISTEN_FDS"))
	if err != nil || n < 1 || os.Getenv("LISTEN_PID") != strconv.Itoa(os.Getpid()) {
		return -1, fmt.Errorf("listen %s%s: systemd has passed no socket to this process; start it by its .socket unit",
			config.SystemdListener, name)
	}
	names := strings.Split(os.Getenv("LISTEN_FDNAMES"), ":")
	i := slices.Index(names, name)
	if number, err := strconv.Atoi(name); i < 0 && err == nil {
		i = number
	}
	if i < 0 || i >= n {
		return -1, fmt.Errorf("listen %s%s: systemd has passed %d: %s", config.SystemdListener, name, n, strings.Join(names, ", "))
	}
	for j := range n { // what is started here must not hold them
		syscall.CloseOnExec(firstInherited + j)
	}
	fd, err := duplicate(firstInherited + i)
	if err != nil {
		return -1, fmt.Errorf("listen %s%s: descriptor %d: %w", config.SystemdListener, name, firstInherited+i, err)
	}
	if err := syscall.SetNonblock(fd, true); err != nil {
		_ = syscall.Close(fd)
		return -1, os.NewSyscallError("fcntl", err)
	}
	return fd, nil
}

// backlog requests as much as the kernel grants (net.core.somaxconn).
const backlog = 65535

// listenAddress parses host:port; an empty host means every address of both families.
func listenAddress(address string) (netip.AddrPort, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return netip.AddrPort{}, err
	}
	switch host {
	case "":
		host = "::"
		fd, err := syscall.Socket(syscall.AF_INET6, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
		if err != nil { // a host without IPv6
			host = "0.0.0.0"
		} else {
			_ = syscall.Close(fd)
		}
	case "localhost":
		host = "127.0.0.1"
	}
	return netip.ParseAddrPort(net.JoinHostPort(host, port))
}
