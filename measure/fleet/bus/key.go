package bus

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Key is a test bed's name and the key that seals its commands, in its own file (0600): all that a
// driver needs with an organisation's own NATS.
type Key struct {
	Version int    `json:"version"`
	Bed     string `json:"bed"`
	Seed    []byte `json:"seed"` // ed25519
}

// MakeKey makes a key for bed and writes it to a file, which must not exist.
func MakeKey(name, bed string) (*Key, error) {
	if err := CheckBed(bed); err != nil {
		return nil, err
	}
	if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s exists: agents trust its key; remove it first to revoke their trust", name)
	}
	k := &Key{stateVersion, bed, make([]byte, ed25519.SeedSize)}
	rand.Read(k.Seed)
	b, err := json.MarshalIndent(k, "", "\t")
	if err != nil {
		return nil, err
	}
	return k, writeWhole(name, append(b, '\n'))
}

// LoadKey reads what MakeKey wrote.
func LoadKey(name string) (*Key, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	k := &Key{}
	if err := json.Unmarshal(b, k); err != nil {
		return nil, fmt.Errorf("%s: not a key file: %w", name, err)
	}
	if k.Version != stateVersion {
		return nil, fmt.Errorf("%s is of version %d, this ceiling knows %d", name, k.Version, stateVersion)
	}
	if len(k.Seed) != ed25519.SeedSize {
		return nil, fmt.Errorf("%s has a key of %d bytes, want %d", name, len(k.Seed), ed25519.SeedSize)
	}
	if err := CheckBed(k.Bed); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return k, nil
}

func (k *Key) signer() Signer { return Signer{ed25519.NewKeyFromSeed(k.Seed)} }

// Token returns the token that agents get in addition to their NATS credentials. It is not secret.
func (k *Key) Token() Token { return Token{Bed: k.Bed, Key: k.signer().Public()} }
