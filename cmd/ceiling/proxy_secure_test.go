//go:build linux

package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"ceiling/internal/needs"
)

// TestSecureProcess: TLS is served with workers and with prefork, by each child; the
// metrics are the sum; a reload takes another certificate; the end is in order.
func TestSecureProcess(t *testing.T) {
	needs.Processes(t)
	t.Parallel()
	for _, mode := range []string{"--workers=2", "--prefork"} {
		t.Run(mode, func(t *testing.T) {
			dir := t.TempDir()
			pair := func(name string) string {
				s := httptest.NewUnstartedServer(nil)
				s.StartTLS() // it has a certificate for example.com and 127.0.0.1
				defer s.Close()
				key, err := x509.MarshalPKCS8PrivateKey(s.TLS.Certificates[0].PrivateKey)
				if err != nil {
					t.Fatal(err)
				}
				at := filepath.Join(dir, name)
				if err := errors.Join(
					os.WriteFile(at+".pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600),
					os.WriteFile(at+".key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), 0o600),
					os.WriteFile(filepath.Join(dir, "index.html"), []byte("page"), 0o600)); err != nil {
					t.Fatal(err)
				}
				return fmt.Sprintf("[[tls.certificates]]\npem = %q\nkey = %q\n", at+".pem", at+".key")
			}
			file := filepath.Join(dir, "site.toml")
			text := "workers = 2\nlisten = [\"127.0.0.1:0\"]\nadmin = \"127.0.0.1:0\"\n[tls]\nredirect = true\nlisten = [\"127.0.0.1:0\"]\n" +
				pair("one") +
				"[[locations]]\n[[locations.destinations]]\nuri = \"files://" + dir + "\"\n"
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			p := startProxy(t, mode, file)
			line, err := p.stdout.ReadString('\n')
			addr, ok := strings.CutPrefix(strings.TrimSpace(line), "proxy serves TLS on ")
			if err != nil || !ok {
				t.Fatalf("%q %v", line, err)
			}
			const each = 8
			for i := range 2 * each { // over all children
				var protocols http.Protocols
				protocols.SetHTTP1(i < each)
				protocols.SetHTTP2(i >= each)
				tr := &http.Transport{Protocols: &protocols, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
				res, err := (&http.Client{Transport: tr, Timeout: 30 * time.Second}).Get("https://" + addr)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(res.Body)
				res.Body.Close()
				tr.CloseIdleConnections()
				if err != nil || string(body) != "page" || (res.ProtoMajor == 2) != (i >= each) {
					t.Fatalf("%s %q %v", res.Proto, body, err)
				}
			}
			said, err := os.ReadFile(p.stderr.Name())
			if err != nil {
				t.Fatal(err)
			}
			_, rest, _ := strings.Cut(string(said), "admin address ")
			admin, _, _ := strings.Cut(rest, "\n")
			metrics := getText(t, "http://"+admin+"/metrics")
			for _, line := range []string{`tls_handshakes_total{version="1.3",kind="full"} 16`, "http2_connections_total 8", "http2_streams_total 8",
				"tls_requests_total 16"} {
				if !strings.Contains(metrics, "\nceiling_proxy_"+line+"\n") {
					t.Errorf("not %s", line)
				}
			}
			if err := os.WriteFile(file, []byte(strings.Replace(text, "one.key", "none.key", 1)), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
			p.said(t, "the old configuration stays")
			if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if err := p.cmd.Wait(); err != nil {
				t.Errorf("ended with %v", err)
			}
		})
	}
}
