package secure

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ceiling/internal/authority"
	"ceiling/proxy/config"
)

// TestInvalidDates: a certificate that clients reject for its dates is served, and reported.
func TestInvalidDates(t *testing.T) {
	for want, by := range map[string]time.Duration{"expired on": -2 * time.Hour, "is not valid before": 2 * time.Hour} {
		now := time.Now().Add(by)
		_, pair, err := authority.Site("of a test", authority.Leaf{Names: []string{"b.example"}, From: now.Add(-time.Hour), To: now.Add(time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
		if err != nil {
			t.Fatal(err)
		}
		text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})
		file := filepath.Join(t.TempDir(), "b.example.pem")
		if err := os.WriteFile(file, append(text, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})...), 0o600); err != nil {
			t.Fatal(err)
		}
		var said []string
		report := func(line string) { said = append(said, line) }
		c, err := Load(&config.TLS{Certificates: []config.Certificate{{PEM: file, Key: file}}}, report)
		if err != nil || c.list[0].loaded == nil || len(said) != 1 || !strings.Contains(said[0], "b.example.pem "+want) {
			t.Error(err, said)
		}
		if _, err := Load(&config.TLS{Certificates: []config.Certificate{{PEM: file, Key: file + "none"}}}, report); err == nil {
			t.Error("no key")
		}
	}
}
