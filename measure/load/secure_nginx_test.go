//go:build linux

package load

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"ceiling/internal/authority"
	"ceiling/internal/needs"
	"ceiling/internal/porttest"
	"ceiling/internal/tlsconn"
)

// nginx starts one with TLS of its own, OpenSSL's, whose log has a line for each
// request, and answers where it listens and where its log is.
func nginx(t *testing.T, lines string) (address, log string) {
	t.Helper()
	return nginxWith(t, "ssl", lines)
}

// nginxWith does so with the given words behind the address that it listens on.
func nginxWith(t *testing.T, listen, lines string) (address, log string) {
	needs.Program(t, "nginx")
	t.Helper()
	program, err := exec.LookPath("nginx")
	if err != nil {
		program = "/usr/sbin/nginx" // which is not in everybody's PATH; .ci/deps installs it
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil { // its workers are somebody else
		t.Fatal(err)
	}
	_, pair, err := authority.Site("of a test", usual())
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalECPrivateKey(pair.PrivateKey.(*ecdsa.PrivateKey))
	if err != nil {
		t.Fatal(err)
	}
	address = porttest.Free(t, "127.0.0.1")
	for name, text := range map[string]string{
		"cert.pem": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})),
		"key.pem":  string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: key})),
		"nginx.conf": fmt.Sprintf(`daemon off; worker_processes 1; pid %[1]s/pid; error_log %[1]s/errors;
events { worker_connections 100; }
http { log_format reuse "$request reused=$ssl_session_reused"; access_log %[1]s/log reuse; keepalive_requests 100; client_body_temp_path %[1]s; proxy_temp_path %[1]s; fastcgi_temp_path %[1]s;
  uwsgi_temp_path %[1]s; scgi_temp_path %[1]s;
  server { listen %[2]s %[4]s; ssl_certificate %[1]s/cert.pem; ssl_certificate_key %[1]s/key.pem; %[3]s
    location / { return 200 "hello\n"; } } }
`, dir, address, lines, listen),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var said bytes.Buffer
	c := exec.Command(program, "-p", dir, "-c", filepath.Join(dir, "nginx.conf"), "-e", "stderr")
	c.Stderr = &said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	t.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGTERM) // it has ended where this fails
		<-ended
	})
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		conn, err := net.Dial("tcp4", address)
		if err == nil {
			conn.Close()
			return address, filepath.Join(dir, "log")
		}
		if time.Now().After(deadline) {
			t.Fatalf("nginx does not listen: %v %s", err, said.String())
		}
	}
}

// TestTLSOfNginx: OpenSSL's TLS 1.3 with each cipher, and 1.2. A hundred requests end
// a connection there, so there are close_notify and new handshakes within; and nginx
// has logged as many requests as were sent.
func TestTLSOfNginx(t *testing.T) {
	needs.Program(t, "nginx")
	t.Parallel()
	for name, k := range map[string]struct {
		lines string
		suite uint16
	}{
		"AES-128":  {"ssl_protocols TLSv1.3; ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256;", tls.TLS_AES_128_GCM_SHA256},
		"AES-256":  {"ssl_protocols TLSv1.3; ssl_conf_command Ciphersuites TLS_AES_256_GCM_SHA384;", tls.TLS_AES_256_GCM_SHA384},
		"ChaCha20": {"ssl_protocols TLSv1.3; ssl_conf_command Ciphersuites TLS_CHACHA20_POLY1305_SHA256;", tls.TLS_CHACHA20_POLY1305_SHA256},
		"TLS 1.2": {"ssl_protocols TLSv1.2; ssl_ciphers ECDHE-ECDSA-AES256-GCM-SHA384;",
			tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, engine string) {
				const n = 2000
				address, log := nginx(t, k.lines)
				c := Config{
					To: addressOf(t, address), Mix: get(), Connections: 8, Threads: 2, Pipelining: 1, Requests: n,
					Timeout: 10 * time.Second, Engine: engine, Seed: 1, Sockets: Sockets{TLS: &tlsconn.Config{Insecure: true}},
				}
				r := runs(t, c)
				clean(t, r, n)
				h := r.Handshakes
				if h.Agreed.Suite != k.suite || h.Window.Count() < n/100-8 || r.Total.Reconnects < n/100-8 {
					t.Errorf("%+v, %d handshakes in the window, %d reconnects", h.Agreed, h.Window.Count(), r.Total.Reconnects)
				}
				// It logs a request once that is answered.
				var lines int
				for deadline := time.Now().Add(5 * time.Second); lines != n && time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
					text, err := os.ReadFile(log)
					if err != nil {
						t.Fatal(err)
					}
					lines = bytes.Count(text, []byte("\n"))
				}
				if uint64(lines) != r.Total.Sent {
					t.Errorf("nginx has logged %d requests, sent %d", lines, r.Total.Sent)
				}
			})
		})
	}
}
