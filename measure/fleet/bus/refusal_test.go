//go:build linux

package bus

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go"
)

// TestReasons: what breaks a connection is said without a library's name.
func TestReasons(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]string{
		io.EOF:                  "it closed the connection",
		nats.ErrStaleConnection: "no answer",
		nats.ErrTimeout:         "no answer",
		nats.ErrNoServers:       "connection refused: nothing listens there",
		nats.ErrAuthorization:   "it refuses the login",
		nats.ErrAuthExpired:     "it refuses the login",
		tls.AlertError(42):      "it refused the TLS handshake",
		&net.OpError{Op: "dial", Err: &net.DNSError{Name: "load1", IsNotFound: true}}: "the name load1 cannot be resolved",
		nats.ErrMaxConnectionsExceeded: "server maximum connections exceeded",
		&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}: "connection refused: nothing listens there",
		&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}:      "it reset the connection",
		&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EHOSTUNREACH)}: "no route to it",
		&net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}:                              "no answer",
		errors.New("nats: user authentication revoked"):                                    "it refuses the login",
		fmt.Errorf("nats: something new"):                                                  "something new",
	} {
		if got := reason(err); got != want || strings.Contains(got, "nats") {
			t.Errorf("%v is said as %q, not %q", err, got, want)
		}
	}
}
