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

// secretKeyFile is beside the person's own store, and not in it: whoever is given
// a record must not be given the key of what is hidden in it.
const secretKeyFile = "secret.key"

const secretKeyBytes = 32

// SecretKey is the key of the digests of hidden values: one for all records of a
// person, made when it is first asked for, in a file for its owner alone. Where it
// cannot be kept, the answer is a key for this process, with the reason as the
// error; equal values of two processes then do not look equal. getenv is
// os.Getenv.
func SecretKey(getenv func(string) string) ([]byte, error) {
	own := make([]byte, secretKeyBytes)
	rand.Read(own) // it cannot fail: crypto/rand
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

// keepKey reads the key, or keeps own as the key where there is none.
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
		// A link fails where the key is there by now: the first one stays.
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
		return nil, fmt.Errorf("%s is no key; delete it, and the next run makes one", path)
	case info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("others can read %s; chmod 600 %s, or delete it, and the next run makes one", path, path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	key, err := hex.DecodeString(string(bytes.TrimSpace(text)))
	if err != nil || len(key) != secretKeyBytes {
		return nil, fmt.Errorf("%s is no key; delete it, and the next run makes one", path)
	}
	return key, nil
}
