package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"ceiling/internal/authority"
	"ceiling/internal/process"
	"ceiling/internal/sys"
)

// nginxConf is a single process, with HTTP/2 over TLS 1.3, with the same responses as ceiling
// serve. Its arguments are the directory and the address.
const nginxConf = `daemon off; master_process off; pid %[1]s/pid; error_log %[1]s/errors;
events { worker_connections 4096; }
http {
  access_log off; keepalive_requests 1000000000; client_body_temp_path %[1]s; proxy_temp_path %[1]s; fastcgi_temp_path %[1]s;
  uwsgi_temp_path %[1]s; scgi_temp_path %[1]s;
  server {
    listen %[2]s ssl http2; ssl_protocols TLSv1.3; ssl_certificate %[1]s/cert.pem; ssl_certificate_key %[1]s/key.pem;
    location /simple { default_type application/json; return 200 '{"message":"hi"}'; }
  }
}
`

// serveNginx starts the installed nginx, and returns once it listens; nil if not installed.
func serveNginx(ctx context.Context) (*served, error) {
	program, err := exec.LookPath("nginx")
	if err != nil {
		return nil, nil
	}
	dir, err := os.MkdirTemp("", "ceiling-bench-nginx-")
	if err != nil {
		return nil, err
	}
	s, err := serveNginxIn(ctx, program, dir)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("nginx: %w", err), os.RemoveAll(dir))
	}
	s.dir = dir
	return s, nil
}

func serveNginxIn(ctx context.Context, program, dir string) (*served, error) {
	held, release, err := sys.HoldPort(netip.MustParseAddr("127.0.0.1"), true)
	if err != nil {
		return nil, err
	}
	defer release() // nginx has it by then
	addr := held.String()
	if err := writeNginx(dir, addr); err != nil {
		return nil, err
	}
	c := process.Command{Name: program, Args: []string{"-p", dir, "-c", filepath.Join(dir, "nginx.conf"), "-e", "stderr"}}
	p, err := c.Start()
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeoutCause(ctx, 10*time.Second, errors.New("it does not listen"))
	defer cancel()
	_, err = p.Await(limited, func() bool {
		conn, err := net.Dial("tcp4", addr)
		return err == nil && conn.Close() == nil
	})
	if err != nil {
		said, _ := os.ReadFile(filepath.Join(dir, "errors")) // if missing, the cause is unknown
		return nil, fmt.Errorf("%w: %s", err, lastLine(said))
	}
	return &served{Process: p, Addr: addr, scheme: "https"}, nil
}

// writeNginx writes its configuration and its certificate.
func writeNginx(dir, addr string) error {
	_, pair, err := authority.Site("of the bench", authority.Leaf{Names: []string{"127.0.0.1"}})
	if err != nil {
		return err
	}
	private, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return errors.New("its key is not ECDSA's")
	}
	key, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		return err
	}
	for name, text := range map[string][]byte{
		"cert.pem":   pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}),
		"key.pem":    pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: key}),
		"nginx.conf": fmt.Appendf(nil, nginxConf, dir, addr),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}
