//go:build linux

package sys

import "golang.org/x/sys/unix"

// TCPCounts are the kernel's byte counts of a TCP socket (struct tcp_info).
type TCPCounts struct {
	// Sent bytes, each once.
	Sent uint64
	// Acked bytes; a connection opened from this end starts at 1, for its SYN. 0: the kernel does
	// not count.
	Acked uint64
}

// CountTCP returns a socket's counts.
func CountTCP(fd int) (TCPCounts, error) {
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return TCPCounts{}, err
	}
	return TCPCounts{Sent: info.Bytes_sent - info.Bytes_retrans, Acked: info.Bytes_acked}, nil
}

// HasUnread reports whether a socket has unread bytes.
func HasUnread(fd int) bool {
	var b [1]byte
	n, _, err := unix.Recvfrom(fd, b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	return err == nil && n > 0
}
