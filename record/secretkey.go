package record

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// secretKeyFile is next to the user's store, not in it: the receiver of a record must not
// receive the key to what it hides.
const secretKeyFile = "secret.key"

const secretKeyBytes = 32

// SecretKey returns the key for the digests of hidden values: one per user, created on first use,
// in a file that only its owner can read. If it cannot be stored, SecretKey returns a key for
// this process together with the error; equal values of two processes then look different. getenv
// is os.Getenv.
func SecretKey(getenv func(string) string) ([]byte, error) {
	own := make([]byte, secretKeyBytes)
	rand.Read(own) // crypto/rand never fails
	store, err := DefaultStore(getenv)
	if err != nil {
		return own, fmt.Errorf("the key of hidden values: %w", err)
	}
	key, err := keepKey(filepath.Join(filepath.Dir(store.Dir), secretKeyFile), own)
	if err != nil {
		return own, fmt.Errorf("the key of hidden values: %w", err)
	}
	return key, nil
}

// keepKey reads the key, or stores own as the key if there is none.
func keepKey(path string, own []byte) ([]byte, error) {
	key, err := readKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+secretKeyFile+".*") // 0600
	if err != nil {
		return nil, err
	}
	_, err = f.WriteString(hex.EncodeToString(own) + "\n")
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		// Link fails if the key exists by now: the first one stays.
		if err = os.Link(f.Name(), path); errors.Is(err, fs.ErrExist) {
			err = nil
		}
	}
	if err := errors.Join(err, os.Remove(f.Name())); err != nil {
		return nil, err
	}
	return readKey(path)
}

func readKey(path string) ([]byte, error) {
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular() || info.Size() > 4*secretKeyBytes:
		return nil, fmt.Errorf("%s: not a key; delete it, and the next run makes one", path)
	case info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("others can read %s; chmod 600 %s, or delete it, and the next run makes one", path, path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	key, err := hex.DecodeString(string(bytes.TrimSpace(text)))
	if err != nil || len(key) != secretKeyBytes {
		return nil, fmt.Errorf("%s: not a key; delete it, and the next run makes one", path)
	}
	return key, nil
}
