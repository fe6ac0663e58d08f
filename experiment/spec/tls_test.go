package spec

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ceiling/internal/authority"
	"ceiling/internal/secret"
)

// TestTLSReadsFiles: names of files become what is in them, which is checked, and
// which a second reading leaves alone.
func TestTLSReadsFiles(t *testing.T) {
	dir := t.TempDir()
	ca, err := authority.New("of a test")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"ca.pem": string(ca.PEM()), "none.pem": "nothing"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	good := TLS{CACert: "ca.pem"}
	for range 2 {
		if err := good.Read(dir); err != nil || good.CACert != string(ca.PEM()) {
			t.Errorf("%v, %q", err, good.CACert)
		}
	}
	for want, bad := range map[string]TLS{
		"--cacert: " + filepath.Join(dir, "no.pem") + ": no such file": {CACert: "no.pem"},
		"--cacert: no certificate in the file":                         {CACert: "none.pem"},
		"--cert, --key: one needs the other":                           {Cert: "ca.pem"},
		"has a certificate and no key":                                 {Cert: "ca.pem", Key: "ca.pem"},
	} {
		if err := bad.Read(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestTLSKeyIsConcealed: neither a spec nor an experiment that may be shown has the
// client's key; the certificates it has.
func TestTLSKeyIsConcealed(t *testing.T) {
	h := secret.Plain()
	s := Spec{Common: Common{TLS: &TLS{Cert: "a certificate", Key: "the key"}}}
	e := Experiment{Load: Load{Common: Common{TLS: &TLS{Cert: "a certificate", Key: "the key"}}}}
	shown, hidden := e.Concealed(h)
	if !hidden {
		t.Error("nothing is said to be hidden")
	}
	for _, v := range []any{s.Concealed(h), shown} {
		b, err := json.Marshal(v)
		if err != nil || strings.Contains(string(b), "the key") || !strings.Contains(string(b), "a certificate") {
			t.Errorf("%s, %v", b, err)
		}
	}
	if s.TLS.Key != "the key" || e.Load.TLS.Key != "the key" {
		t.Error("the original has changed")
	}
	if _, err := shown.Load.TLS.Pair(); err == nil || !strings.Contains(err.Error(), "is not kept; give the flags again") {
		t.Error(err)
	}
}
