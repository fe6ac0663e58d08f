package quicconn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/quic-go/quic-go"
)

// TestExplainSocketErrors: what the kernel answered to the socket is told by its name, in constant
// words: the ports of the library's messages differ from connection to connection.
func TestExplainSocketErrors(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{&net.OpError{Op: "dial", Net: "udp", Err: os.NewSyscallError("socket", syscall.EMFILE)}, "EMFILE"},
		{errors.Join(&quic.TransportError{ErrorCode: quic.InternalError,
			ErrorMessage: "write udp4 0.0.0.0:53371->10.1.2.3:443: sendmsg: network is unreachable"}), "ENETUNREACH"},
		{&quic.TransportError{ErrorCode: quic.InternalError, ErrorMessage: "write udp4: sendmsg: operation not permitted"}, "EPERM"},
		{&quic.TransportError{ErrorCode: quic.InternalError, ErrorMessage: "write udp4: sendmsg: no buffer space available"}, "ENOBUFS"},
		{fmt.Errorf("read: %w", syscall.ECONNREFUSED), "ECONNREFUSED"},
		{&quic.TransportError{ErrorCode: quic.InternalError, ErrorMessage: "something else"}, "QUIC error: INTERNAL_ERROR"},
		{&quic.TransportError{Remote: true, ErrorCode: quic.InternalError, ErrorMessage: "x: operation not permitted"},
			"QUIC error from the server: INTERNAL_ERROR"},
		{context.DeadlineExceeded, CauseTimeout},
	} {
		if got := Explain(c.err); got != c.want {
			t.Errorf("%v: %q, want %q", c.err, got, c.want)
		}
	}
}
