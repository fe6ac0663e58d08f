package bus

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"ceiling/internal/durable"
	"ceiling/internal/sys"
)

const (
	stateVersion = 1
	stateName    = "controller.json"
	lockName     = "lock"
)

// State is the identity of a controller across restarts. It is one file, written atomically.
type State struct {
	Version   int      `json:"version"`
	Bed       string   `json:"bed"`
	Port      int      `json:"port"`            // as first bound; 0: not yet
	Address   string   `json:"address"`         // host:port for the controller's own processes
	Seed      []byte   `json:"seed"`            // ed25519, 32 bytes: seals commands
	Secret    [32]byte `json:"secret,omitzero"` // of the only token from before tokens expired; zero once that is in tokens.json
	Driver    [32]byte `json:"driver"`          // the login secret of the controller's own processes
	Authority []byte   `json:"authority"`       // CA certificate, DER
	CAKey     []byte   `json:"ca_key"`          // PKCS #8, DER
}

func (s *State) signer() Signer { return Signer{ed25519.NewKeyFromSeed(s.Seed)} }

// token returns a token of this controller, without its secret.
func (s *State) token() Token {
	return Token{Bed: s.Bed, Authority: sha256.Sum256(s.Authority), Key: s.signer().Public()}
}

func newState(bed string) (*State, error) {
	s := &State{Version: stateVersion, Bed: bed, Seed: make([]byte, ed25519.SeedSize)}
	rand.Read(s.Seed)
	rand.Read(s.Driver[:])
	var err error
	s.Authority, s.CAKey, err = makeAuthority(bed)
	return s, err
}

// readState reads a controller's state; fs.ErrNotExist if dir has none.
func readState(dir string) (*State, error) {
	name := filepath.Join(dir, stateName)
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var version struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(b, &version); err != nil {
		return nil, fmt.Errorf("%s is not a controller's state (%w): take another directory, or the file from a copy", name, err)
	}
	if version.Version != stateVersion {
		return nil, fmt.Errorf("%s is of version %d, this ceiling knows %d: use the ceiling that made it, or another directory", name,
			version.Version, stateVersion)
	}
	s := &State{}
	decoder := json.NewDecoder(bytes.NewReader(b))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(s); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(s.Seed) != ed25519.SeedSize || CheckBed(s.Bed) != nil || len(s.Authority) == 0 || len(s.CAKey) == 0 {
		return nil, fmt.Errorf("%s lacks a key, a certificate or a name: take another directory, or the file from a copy", name)
	}
	return s, nil
}

// Write replaces the file atomically and waits until it is on disk.
func (s *State) Write(dir string) error {
	b, err := json.MarshalIndent(s, "", "\t")
	if err != nil {
		return err
	}
	return writeWhole(filepath.Join(dir, stateName), append(b, '\n'))
}

// writeWhole creates or replaces an owner-only file (0600) atomically.
func writeWhole(name string, b []byte) error {
	return durable.Replace(name, b, likeDirectory)
}

// lockState locks dir for this process until the file is closed. The kernel releases it however the
// process ends: flock(2).
func lockState(dir string) (*os.File, error) {
	name := filepath.Join(dir, lockName)
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = sys.Lock(f, false)
	for try := 0; try < 5 && errors.Is(err, syscall.EWOULDBLOCK); try++ { // isRunning holds it for a moment
		time.Sleep(20 * time.Millisecond)
		err = sys.Lock(f, false)
	}
	if err != nil {
		defer f.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock %s: %w", name, err)
		}
		holder, _ := os.ReadFile(name) // only for the message
		if pid := strings.TrimSpace(string(holder)); pid != "" && len(pid) < 20 {
			return nil, fmt.Errorf("%s is in use by another controller (process %s): stop it, or take another directory", dir, pid)
		}
		return nil, fmt.Errorf("%s is in use by another controller: stop it, or take another directory", dir)
	}
	if err := f.Truncate(0); err == nil {
		_, err = f.WriteAt(fmt.Appendln(nil, os.Getpid()), 0)
		if err != nil {
			f.Close()
			return nil, err
		}
	}
	return f, nil
}

// OpenState locks dir, and reads its state or creates one.
func OpenState(dir, bed string) (*State, *os.File, error) {
	if dir == "" {
		return nil, nil, errors.New("no directory for the controller's state")
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
		s, err = newState(cmpBed(bed))
		if err == nil {
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

func cmpBed(bed string) string {
	if bed == "" {
		return "lab"
	}
	return bed
}
