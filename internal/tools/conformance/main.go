// Command conformance provides what .ci/conformance needs besides the suites: an origin server
// behind a proxy, h2spec, and a client that keeps sending requests while a proxy is blocked.
package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

const usage = `usage: conformance origin DIR       serve until SIGTERM; DIR gets plain, tls, cert.pem and key.pem
       conformance h2spec ADDRESS   every case of h2spec, with TLS: a line with the sums, then what failed
       conformance ask URL          GET twice a second until SIGTERM, then a line with what came`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := command(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return errors.New(usage)
	}
	switch args[0] {
	case "origin":
		return origin(ctx, args[1])
	case "h2spec":
		return h2specOf(args[1])
	case "ask":
		return ask(ctx, args[1])
	}
	return errors.New(usage)
}

// origin is Go's server with its defaults, plain and with TLS and HTTP/2. It writes its addresses
// and a self-signed certificate to files in dir.
func origin(ctx context.Context, dir string) error {
	if err := certify(dir); err != nil {
		return err
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"))
	if err != nil {
		return err
	}
	plain := &http.Server{Handler: answers()}
	secure := &http.Server{Handler: plain.Handler, TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}}}
	defer plain.Close()
	defer secure.Close()
	ended := make(chan error, 2)
	for name, serve := range map[string]func(net.Listener) error{
		"plain": plain.Serve,
		"tls":   func(ln net.Listener) error { return secure.ServeTLS(ln, "", "") },
	} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		go func() { ended <- serve(ln) }()
		// Renamed into place: a waiting process finds the file complete.
		part := filepath.Join(dir, "."+name)
		if err := os.WriteFile(part, []byte(ln.Addr().String()), 0o600); err != nil {
			return err
		}
		if err := os.Rename(part, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return nil
	}
}

// large exceeds the socket buffers on the path.
const large = 4 << 20

// answers accepts any body, and responds with a few bytes or, at /large, with many.
func answers() http.Handler {
	body := bytes.Repeat([]byte{'x'}, large) // shared: a thousand clients may hold it
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if _, err := io.Copy(io.Discard, q.Body); err != nil {
			return // the client has disconnected
		}
		some := body[:64]
		if q.URL.Path == "/large" {
			some = body
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(some)))
		_, _ = w.Write(some) // fails if the client has disconnected
	})
}

// certify writes a certificate for localhost, valid for a day.
func certify(dir string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore:   time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		return err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "cert.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600),
		os.WriteFile(filepath.Join(dir, "key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
}

// ask is an ordinary client with a connection per request.
func ask(ctx context.Context, url string) error {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	asked, good := 0, 0
	var longest time.Duration
	var last error
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		begin := time.Now()
		err := one(client, url)
		asked++
		longest = max(longest, time.Since(begin))
		if err == nil {
			good++
		} else {
			last = err
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	fmt.Printf("%d of %d asked during it were answered, the slowest in %v\n", good, asked, longest.Round(time.Millisecond))
	return last
}

func one(client *http.Client, url string) error {
	res, err := client.Get(url)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", res.StatusCode)
	}
	return nil
}
