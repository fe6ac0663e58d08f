package main

import (
	"crypto/tls"
	"io"
	"net/http"
	"testing"

	"ceiling/internal/needs"
)

// TestServeNginx: it answers over HTTP/2, and is one process.
func TestServeNginx(t *testing.T) {
	needs.Program(t, "nginx")
	s, err := serveNginx(t.Context(), t.TempDir())
	if err != nil || s == nil {
		t.Fatalf("nginx, which .ci/deps installs: %v, %v", s, err)
	}
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}}
	r, err := client.Get(s.url("/simple"))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil || r.Body.Close() != nil || r.ProtoMajor != 2 || string(body) != `{"message":"hi"}` {
		t.Errorf("%s %q, %v", r.Proto, body, err)
	}
	client.CloseIdleConnections()
	if _, err := s.readings(); err != nil {
		t.Error(err)
	}
	s.Stop()
	if err := s.Err(); err != nil {
		t.Error(err)
	}
}
