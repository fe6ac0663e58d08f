// Package natstest starts servers for tests: a controller with what joins it, or an external NATS with
// TLS, JetStream and accounts, and nothing of a test bed.
package natstest

import (
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Start runs a server on 127.0.0.1 until the test ends, with the accounts given in NATS'
// configuration language, where $CEILING_DRIVER is "d-secret" and $CEILING_AGENT "a-secret". It
// returns the address for a user and password, and the file of its certificate's authority.
func Start(t testing.TB, accounts string) (at func(user string) string, ca string) {
	t.Helper()
	dir := t.TempDir()
	certified := httptest.NewTLSServer(nil) // for its certificate of 127.0.0.1
	defer certified.Close()
	ca, conf := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "nats.conf")
	text := fmt.Sprintf("listen: \"127.0.0.1:-1\"\nCEILING_DRIVER: d-secret\nCEILING_AGENT: a-secret\njetstream { store_dir: %q }\n", dir) +
		accounts
	for name, b := range map[string][]byte{
		ca:   pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certified.Certificate().Raw}),
		conf: []byte(text),
	} {
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o, err := server.ProcessConfigFile(conf)
	if err != nil {
		t.Fatal(err)
	}
	o.NoSigs, o.NoLog, o.TLSTimeout = true, true, 30
	o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: certified.TLS.Certificates}
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("NATS is not ready")
	}
	return func(user string) string { return fmt.Sprintf("tls://%s@127.0.0.1:%d", user, o.Port) }, ca
}
