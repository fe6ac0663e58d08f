package bus

import (
	"bytes"
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/nats-io/nkeys"

	"ceiling/internal/durable"
	"ceiling/internal/sys"
)

const (
	stateVersion = 2
	stateName    = "controller.json"
	lockName     = "lock"
)

// State is the identity of a controller across restarts. It is one file, written atomically.
type State struct {
	Version int    `json:"version"`
	Bed     string `json:"bed"`
	Port    int    `json:"port"`    // as first bound; 0: not yet
	Address string `json:"address"` // host:port for the controller's own processes
	// The keys of the test bed's account, and of those that sign its agents, and may sign no others.
	AccountSeed    string `json:"account_seed"`
	AgentsSeed     string `json:"agents_seed"`
	Certificate    []byte `json:"certificate"`     // DER
	CertificateKey []byte `json:"certificate_key"` // PKCS #8, DER
}

func newState(bed string) (*State, error) {
	s := &State{Version: stateVersion, Bed: bed}
	var err1, err2, err3 error
	s.AccountSeed, err1 = newSeed(nkeys.PrefixByteAccount)
	s.AgentsSeed, err2 = newSeed(nkeys.PrefixByteAccount)
	s.Certificate, s.CertificateKey, err3 = makeCertificate(bed)
	return s, errors.Join(err1, err2, err3)
}

// readState reads the state of a controller that has been started at least once.
func readState(dir string) (*State, error) {
	name := filepath.Join(dir, stateName)
	b, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, say(err, "%s has no controller's state: start `ceiling fleet controller` there first", dir)
	}
	if err != nil {
		return nil, err
	}
	s := &State{}
	if err := json.Unmarshal(b, s); err != nil {
		return nil, fmt.Errorf("%s is not a controller's state (%w): take another directory, or the file from a copy", name, err)
	}
	if s.Version != stateVersion {
		return nil, fmt.Errorf("%s is of version %d, this ceiling knows %d: use the ceiling that made it, or another directory", name,
			s.Version, stateVersion)
	}
	if CheckBed(s.Bed) != nil || s.AccountSeed == "" || s.AgentsSeed == "" || len(s.Certificate) == 0 || len(s.CertificateKey) == 0 {
		return nil, fmt.Errorf("%s lacks a key, a certificate or a name: take another directory, or the file from a copy", name)
	}
	return s, nil
}

// Write replaces the file atomically and waits until it is on disk.
func (s *State) Write(dir string) error { return writeJSON(filepath.Join(dir, stateName), s) }

func writeJSON(name string, v any) error {
	b, err := json.MarshalIndent(v, "", "\t")
	if err != nil {
		return err
	}
	return writeWhole(name, append(b, '\n'))
}

// writeWhole creates or replaces an owner-only file (0600) atomically.
func writeWhole(name string, b []byte) error {
	return durable.Replace(name, b, likeDirectory)
}

// lockState locks dir for this process until the file is closed. The kernel releases it however the
// process ends: flock(2).
func lockState(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err = sys.Lock(f, false); err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = fmt.Fprintln(f, os.Getpid())
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		holder, _ := io.ReadAll(f) // only for the message
		err = fmt.Errorf("%s is in use by another controller (process %s): stop it, or take another directory", dir, bytes.TrimSpace(holder))
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// OpenState locks dir, and reads its state or creates one.
func OpenState(dir, bed string) (*State, *os.File, error) {
	if err := CheckBed(cmp.Or(bed, DefaultBed)); err != nil {
		return nil, nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, err
	}
	lock, err := lockState(dir)
	if err != nil {
		return nil, nil, err
	}
	s, err := readState(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if s, err = newState(cmp.Or(bed, DefaultBed)); err == nil {
			err = s.Write(dir)
		}
	}
	if err == nil && bed != "" && bed != s.Bed {
		err = fmt.Errorf("%s belongs to test bed %s, not %s: name that one, or take another directory", dir, s.Bed, bed)
	}
	if err != nil {
		lock.Close()
		return nil, nil, err
	}
	return s, lock, nil
}

// validFor exceeds the life of any controller's state; agents pin the certificate, so its expiry does
// not protect them.
const validFor = 20 * 365 * 24 * time.Hour

// makeCertificate makes a controller's certificate. It has no host names: its key is proof
// enough, also behind an address that the controller does not know.
func makeCertificate(bed string) (der, key []byte, err error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "ceiling controller of " + bed},
		NotBefore:    time.Now(),
		NotAfter:     time.Now().Add(validFor),
	}
	if der, err = x509.CreateCertificate(rand.Reader, c, c, k.Public(), k); err != nil {
		return nil, nil, err
	}
	key, err = x509.MarshalPKCS8PrivateKey(k)
	return der, key, err
}

// ServerTLS returns the controller's side. TLS 1.3 only: both ends are this program.
func (s *State) ServerTLS() (*tls.Config, error) {
	key, err := x509.ParsePKCS8PrivateKey(s.CertificateKey)
	if err != nil {
		return nil, fmt.Errorf("the key of the controller's certificate: %w", err)
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{{Certificate: [][]byte{s.Certificate}, PrivateKey: key}},
	}, nil
}

// fingerprint returns the SHA-256 of a certificate, hex.
func fingerprint(der []byte) string {
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:])
}

var errStranger = errors.New("that is not the controller which made the token")

// pinned trusts only the certificate with that fingerprint, and no authority.
func pinned(certificate string) *tls.Config {
	// The standard verification is replaced, not skipped: VerifyConnection runs on every handshake,
	// including every reconnect.
	return &tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true, VerifyConnection: func(c tls.ConnectionState) error {
		if fingerprint(c.PeerCertificates[0].Raw) != certificate {
			return errStranger
		}
		return nil
	}}
}
