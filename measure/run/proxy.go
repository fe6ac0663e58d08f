package run

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"

	"ceiling/experiment/spec"
	"ceiling/internal/exit"
	"ceiling/internal/http1"
)

// proxyVariable returns the environment variable that names a proxy for other programs; "": none does.
func proxyVariable() string {
	for _, name := range []string{"https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"} {
		if os.Getenv(name) != "" {
			return name
		}
	}
	return ""
}

// forwarded reports whether a proxy gets the requests themselves, as clients give it those of
// http:// URLs (RFC 9112, section 3.2.2). What is made while the run lasts, and all that is not
// HTTP/1.1, goes through a tunnel.
func forwarded(s *spec.Spec, to spec.Address) bool {
	return s.Proxy != "" && !to.TLS && s.Kind == spec.Requests && s.HTTP != spec.HTTP2 && s.Targets[0].From == nil
}

// tunnel returns the CONNECT to an address; nil: no tunnel is needed.
func tunnel(s *spec.Spec, to spec.Address) ([]byte, error) {
	if s.Proxy == "" || forwarded(s, to) {
		return nil, nil
	}
	fields, err := proxyFields(s)
	if err != nil {
		return nil, err
	}
	at := net.JoinHostPort(to.Host, strconv.Itoa(int(to.Port)))
	b, err := http1.AppendRequest(nil, http.MethodConnect, at, at, fields, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: --proxy: %w", exit.ErrRefused, err)
	}
	return b, nil
}

// proxyFields returns the fields for the proxy alone.
func proxyFields(s *spec.Spec) ([]http1.Field, error) {
	p, err := spec.ParseProxy(s.Proxy)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", exit.ErrRefused, err)
	}
	if p.Authorization == "" {
		return nil, nil
	}
	return []http1.Field{{Name: "Proxy-Authorization", Value: p.Authorization}}, nil
}

// throughProxy opens a tunnel on a connection to a proxy.
func throughProxy(ctx context.Context, c net.Conn, connect []byte) error {
	if until, set := ctx.Deadline(); set {
		if err := c.SetDeadline(until); err != nil {
			return err
		}
	}
	if _, err := c.Write(connect); err != nil {
		return err
	}
	// One byte at a time: what follows the head is the server's.
	r, err := http.ReadResponse(bufio.NewReaderSize(oneByte{c}, 16), &http.Request{Method: http.MethodConnect})
	if err != nil {
		return fmt.Errorf("the proxy %s: %w", c.RemoteAddr(), err)
	}
	if r.StatusCode < 200 || r.StatusCode > 299 {
		return fmt.Errorf("%w: the proxy %s answered CONNECT with %s", exit.ErrRefused, c.RemoteAddr(), r.Status)
	}
	return nil
}

// oneByte reads one byte at a time.
type oneByte struct{ net.Conn }

func (c oneByte) Read(b []byte) (int, error) { return c.Conn.Read(b[:1]) }
