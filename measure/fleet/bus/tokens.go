package bus

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ceiling/internal/sys"
	"ceiling/internal/text"
)

const (
	// TokenLife is the default validity of a token.
	TokenLife = 30 * 24 * time.Hour
	// TokenLifeMost is the longest validity of a token.
	TokenLifeMost = 3660 * 24 * time.Hour
	// TokenFile is the file, in a controller's directory, of the token that it created itself.
	TokenFile = "token"

	TokensName = "tokens.json"      // hashes and dates of all tokens, written by every process that creates or revokes one
	tokensLock = "tokens.lock"      // held while tokens.json is changed
	UsesName   = "tokens-used.json" // only written by the controller
	tokensMost = 256                // kept; of invalid ones the oldest are dropped first
)

// Pass is what a controller stores about a token: never its secret.
type Pass struct {
	// Hash is the SHA-256 of the secret as an agent sends it, hex. The secret has 256 random bits,
	// so its hash reveals nothing.
	Hash    string    `json:"hash"`
	Made    time.Time `json:"made"`
	Expires time.Time `json:"expires"`
	Revoked time.Time `json:"revoked,omitzero"`
}

// ID returns the name of a token in lists and messages.
func (p *Pass) ID() string { return ShortID(p.Hash) }

// ShortID returns the ID of a token by its hash.
func ShortID(hash string) string { return hash[:idLength] }

// idLength is in hex digits: 32 bits distinguish 256 tokens.
const idLength = 8

// State returns the state of a token at a time.
func (p *Pass) State(now time.Time) TokenState {
	switch {
	case !p.Revoked.IsZero():
		return TokenRevoked
	case !now.Before(p.Expires):
		return TokenExpired
	}
	return TokenValid
}

// TokenState is whether agents may join with a token.
type TokenState string

const (
	TokenValid   TokenState = "valid"
	TokenExpired TokenState = "expired"
	TokenRevoked TokenState = "revoked"
)

// ID returns the ID of this token in the controller's list.
func (t Token) ID() string { return ShortID(t.hash()) }

func (t Token) hash() string { return HashOf(hex.EncodeToString(t.Secret[:])) }

func HashOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// Use is the recorded use of a token.
type Use struct {
	Last time.Time `json:"last"`
	// Agents is how many agents are connected with it.
	Agents int `json:"agents"`
}

// Listed is a token with its use.
type Listed struct {
	Pass
	Use
}

// ListTokens lists the tokens of a controller's directory, the latest first. Agents counts the
// connected ones, and is 0 if no controller runs.
func ListTokens(dir string) ([]Listed, error) {
	if _, err := needState(dir); err != nil {
		return nil, err
	}
	passes, err := ReadPasses(dir)
	if err != nil {
		return nil, err
	}
	uses, err := ReadUses(dir)
	if err != nil {
		return nil, err
	}
	running, err := isRunning(dir)
	if err != nil {
		return nil, err
	}
	var list []Listed
	for _, p := range slices.Backward(passes) {
		u := uses[p.ID()]
		if !running {
			u.Agents = 0
		}
		list = append(list, Listed{p, u})
	}
	return list, nil
}

// CreateToken creates a token that agents may join with from now on, even while the controller
// runs. It cannot be shown again: its secret is not stored.
func CreateToken(dir string, life time.Duration) (Token, Pass, error) {
	s, err := needState(dir)
	if err != nil {
		return Token{}, Pass{}, err
	}
	if life <= 0 || life > TokenLifeMost {
		return Token{}, Pass{}, fmt.Errorf("a token is valid for more than 0 and at most %d days", int(TokenLifeMost.Hours()/24))
	}
	t := s.token()
	rand.Read(t.Secret[:])
	p, err := addPass(dir, t, life)
	return t, p, err
}

func addPass(dir string, t Token, life time.Duration) (Pass, error) {
	now := time.Now().UTC().Truncate(time.Second)
	p := Pass{Hash: t.hash(), Made: now, Expires: now.Add(max(life.Round(time.Second), time.Second))}
	return p, changePasses(dir, func(list []Pass) ([]Pass, error) {
		for len(list) >= tokensMost {
			i := slices.IndexFunc(list, func(p Pass) bool { return p.State(now) != TokenValid })
			if i < 0 {
				return nil, fmt.Errorf("%d tokens are valid, more are not kept: revoke some (ceiling fleet tokens)", tokensMost)
			}
			list = slices.Delete(list, i, i+1)
		}
		return append(list, p), nil
	})
}

// RevokeToken revokes a token. A running controller disconnects its agents within two seconds.
func RevokeToken(dir, id string) (Pass, error) {
	if _, err := needState(dir); err != nil {
		return Pass{}, err
	}
	var revoked Pass
	err := changePasses(dir, func(list []Pass) ([]Pass, error) {
		var ids []string
		for i := range list {
			p := &list[i]
			ids = append(ids, p.ID())
			if p.ID() != id {
				continue
			}
			if p.Revoked.IsZero() {
				p.Revoked = time.Now().UTC().Truncate(time.Second)
			}
			revoked = *p
			return list, nil
		}
		return nil, fmt.Errorf("no token %s here, but %s", text.Quote(id), strings.Join(ids, ", "))
	})
	return revoked, err
}

// needState reads the state of a controller that has been started at least once.
func needState(dir string) (*State, error) {
	s, err := readState(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s has no controller's state: start `ceiling fleet controller` there first", dir)
	}
	return s, err
}

// ReadPasses reads tokens.json, which may be missing.
func ReadPasses(dir string) ([]Pass, error) {
	b, err := os.ReadFile(filepath.Join(dir, TokensName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	list, err := parsePasses(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, TokensName), err)
	}
	return list, nil
}

func parsePasses(b []byte) ([]Pass, error) {
	var list []Pass
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&list); err != nil {
		return nil, err
	}
	for i, p := range list {
		if raw, err := hex.DecodeString(p.Hash); err != nil || len(raw) != sha256.Size || p.Made.IsZero() || p.Expires.IsZero() {
			return nil, fmt.Errorf("token %d of the list lacks a hash or a date", i+1)
		}
	}
	return list, nil
}

// changePasses replaces the list under a lock.
func changePasses(dir string, change func([]Pass) ([]Pass, error)) error {
	lock, err := os.OpenFile(filepath.Join(dir, tokensLock), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := sys.Lock(lock, true); err != nil { // held while one small file is written
		return fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	list, err := ReadPasses(dir)
	if err != nil {
		return err
	}
	if list, err = change(list); err != nil {
		return err
	}
	return WriteJSON(filepath.Join(dir, TokensName), list)
}

func WriteJSON(name string, of any) error {
	b, err := json.MarshalIndent(of, "", "\t")
	if err != nil {
		return err
	}
	return writeWhole(name, append(b, '\n'))
}

func ReadUses(dir string) (map[string]Use, error) {
	uses := map[string]Use{}
	b, err := os.ReadFile(filepath.Join(dir, UsesName))
	if errors.Is(err, fs.ErrNotExist) {
		return uses, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &uses)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, UsesName), err)
	}
	return uses, nil
}

// OwnToken returns the token that the controller hands out itself: the one in its directory, or a
// new one if that is no longer valid.
func OwnToken(dir string, s *State) (Token, Pass, error) {
	list, err := ReadPasses(dir)
	if err != nil {
		return Token{}, Pass{}, err
	}
	name := filepath.Join(dir, TokenFile)
	b, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Token{}, Pass{}, err
	}
	if t, err := ParseToken(string(b)); err == nil { // otherwise replace it
		i := slices.IndexFunc(list, func(p Pass) bool { return p.Hash == t.hash() })
		if i >= 0 && list[i].State(time.Now()) == TokenValid {
			return t, list[i], nil
		}
	}
	t := s.token()
	if t.Secret = s.Secret; t.Secret == [32]byte{} { // of a state from before tokens expired
		rand.Read(t.Secret[:])
	}
	p, err := addPass(dir, t, TokenLife)
	if err == nil {
		err = writeWhole(name, []byte(t.String()+"\n"))
	}
	if err == nil && s.Secret != [32]byte{} {
		s.Secret = [32]byte{}
		err = s.Write(dir)
	}
	return t, p, err
}

// isRunning reports whether a controller uses the directory.
func isRunning(dir string) (bool, error) {
	f, err := os.Open(filepath.Join(dir, lockName))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close() // which releases the lock
	return sys.IsLocked(f)
}
