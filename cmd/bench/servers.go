package main

import (
	"bytes"
	"context"
	"crypto/x509"
	_ "embed"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"ceiling/experiment/spec"
	"ceiling/internal/authority"
	"ceiling/measure/cores"
	"ceiling/measure/run"
)

// transport is the server of a work, and its protocol.
type transport uint8

const (
	plain   transport = iota // HTTP/1.1
	apart                    // the same, on CPUs of its own
	overTLS                  // HTTP/1.1 and TLS
	overH2                   // HTTP/2 and TLS, against net/http
	nginxH2                  // same, against nginx
)

// served is a child process that serves.
type served struct {
	*run.Child
	base string // of its URLs
}

func (s *served) url(path string) string { return s.base + path }

// startServers starts the servers of the speed part; after an error, the caller stops those that it has started. Without CPUs
// apart, or without nginx, there is none of that transport.
func startServers(ctx context.Context, binary, dir string, split cores.Split) (map[transport]*served, error) {
	all := map[transport]*served{}
	for over, args := range map[transport][]string{plain: {serverKind}, apart: {serverKind}, overTLS: {serverKind, "--tls"}, overH2: {"nethttp", "--tls"}} {
		var cpus []int
		if over == apart {
			if cpus = split.Server; len(cpus) == 0 {
				continue
			}
		}
		s, err := serveOn(ctx, cpus, binary, args...)
		if err != nil {
			return all, err
		}
		all[over] = s
	}
	if _, err := exec.LookPath("nginx"); err != nil {
		return all, nil
	}
	s, err := serveNginx(ctx, dir)
	if err != nil {
		return all, fmt.Errorf("nginx: %w", err)
	}
	all[nginxH2] = s
	return all, nil
}

// serveOn starts ceiling serve on a free port, on some CPUs only, and returns once it is ready.
func serveOn(ctx context.Context, cpus []int, binary string, args ...string) (*served, error) {
	c, err := run.StartChildOn(ctx, cpus, binary, append([]string{"serve", "--addr", "127.0.0.1:0"}, args...)...)
	if err != nil {
		return nil, err
	}
	if strings.Contains(c.Addr, "://") {
		return &served{c, c.Addr}, nil
	}
	return &served{c, "http://" + c.Addr}, nil
}

// nginxConf has the directory and the address left to fill in.
//
//go:embed nginx.conf
var nginxConf string

// serveNginx starts the installed nginx in a directory, and returns once it listens.
func serveNginx(ctx context.Context, dir string) (*served, error) {
	addr, err := run.FreeAddress()
	if err == nil {
		err = writeNginx(dir, addr)
	}
	if err != nil {
		return nil, err
	}
	c, base, err := run.StartServerAt(ctx, &spec.Server{Name: "nginx", TLS: true, Dir: dir, Serve: "exec nginx -p . -c nginx.conf -e stderr"}, addr)
	return &served{c, base}, err
}

// writeNginx writes its configuration and its certificate, with the key.
func writeNginx(dir, addr string) error {
	_, pair, err := authority.Site("of the bench", authority.Leaf{Names: []string{"127.0.0.1"}})
	if err != nil {
		return err
	}
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	conf := strings.NewReplacer("{dir}", dir, "{addr}", addr).Replace(nginxConf)
	return errors.Join(pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}),
		pem.Encode(&text, &pem.Block{Type: "PRIVATE KEY", Bytes: key}),
		os.WriteFile(filepath.Join(dir, "cert.pem"), text.Bytes(), 0o600), os.WriteFile(filepath.Join(dir, "nginx.conf"), []byte(conf), 0o600))
}
