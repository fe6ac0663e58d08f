package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"ceiling/internal/sys"
	"ceiling/internal/text"
)

// Token is what an agent needs to join a test bed, and to authenticate its controller: a user of
// NATS, as a JWT that the controller signed, and its key. Its holder may become an agent of that test
// bed until the token expires or is revoked, and no more: it cannot send commands.
type Token struct {
	Pass
	JWT, Seed string

	// As the JWT says.
	Bed         string
	Certificate string // SHA-256 of the controller's, hex
}

const (
	tokenPrefix    = "ceiling-"
	certificateTag = "certificate"
)

// String returns the form for a file or a variable.
func (t Token) String() string { return tokenPrefix + t.Seed + "." + t.JWT }

// ParseToken parses what String returns, ignoring surrounding white space. Its errors are ErrTokenOver
// and never contain the token.
func ParseToken(s string) (Token, error) {
	s = strings.TrimSpace(s)
	rest, ok := strings.CutPrefix(s, tokenPrefix)
	seed, text, _ := strings.Cut(rest, ".")
	t, err := decodeToken(seed, text)
	switch {
	case s == "":
		err = errors.New("the token is empty: copy it from the controller")
	case !ok && !strings.HasPrefix(tokenPrefix, s):
		err = fmt.Errorf("the token does not begin with %q: copy it from the controller", tokenPrefix)
	case err != nil: // without its text, which may have a part of the token
		err = errors.New("the token is cut off, changed, or of another version of ceiling: copy it again from the controller")
	default:
		err = CheckBed(t.Bed)
	}
	if err != nil {
		return Token{}, say(ErrTokenOver, "%v", err)
	}
	return t, nil
}

// decodeToken checks the signature of the JWT, and that the key is its user's.
func decodeToken(seed, text string) (Token, error) {
	claims, err := jwt.DecodeUserClaims(text)
	if err != nil {
		return Token{}, err
	}
	_, public, err := pair(seed)
	if err != nil {
		return Token{}, err
	}
	i := slices.IndexFunc(claims.Tags, func(tag string) bool { return strings.HasPrefix(tag, certificateTag+":") })
	if i < 0 || public != claims.Subject {
		return Token{}, errors.New("no certificate, or another user's key")
	}
	return tokenOf(claims, text, seed, strings.TrimPrefix(claims.Tags[i], certificateTag+":")), nil
}

func tokenOf(c *jwt.UserClaims, text, seed, certificate string) Token {
	at := func(seconds int64) time.Time { return time.Unix(seconds, 0).UTC() }
	return Token{Pass{User: c.Subject, Made: at(c.IssuedAt), Expires: at(c.Expires)}, text, seed, c.Name, certificate}
}

const (
	// TokenLife is the default validity of a token.
	TokenLife = 30 * 24 * time.Hour
	// TokenLifeMost is the longest validity of a token.
	TokenLifeMost = 3660 * 24 * time.Hour
	// TokenFile is the file, in a controller's directory, of the token that it created itself.
	TokenFile = "token"

	tokensName = "tokens.json" // users and dates of all tokens, written by every process that creates or revokes one
	tokensLock = "tokens.lock" // held while tokens.json is changed
	tokensMost = 256           // from which on those that expired leave the list
)

// Pass is what a controller stores about a token: nothing that lets anybody in.
type Pass struct {
	User    string    `json:"user"` // public key
	Made    time.Time `json:"made"`
	Expires time.Time `json:"expires"`
	Revoked time.Time `json:"revoked,omitzero"`
}

// ID returns the name of a token in lists and messages: the beginning of its user's key, as NATS logs it.
func (p Pass) ID() string { return p.User[:min(len(p.User), 10)] }

// State returns the state of a token at a time.
func (p Pass) State(now time.Time) TokenState {
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

// Listed is a token with its use since the controller started.
type Listed struct {
	Pass
	Last   time.Time // zero: none
	Agents int       // connected now
}

// ListTokens lists the tokens of a controller's directory, the latest first. A controller that runs
// says how they are used.
func ListTokens(ctx context.Context, dir string) ([]Listed, error) {
	if _, err := readState(dir); err != nil {
		return nil, err
	}
	passes, err := ReadPasses(dir)
	if err != nil {
		return nil, err
	}
	var list []Listed
	for _, p := range slices.Backward(passes) {
		list = append(list, Listed{Pass: p})
	}
	return list, addUses(ctx, dir, list)
}

// addUses asks the server for its connections, those that have ended too.
func addUses(ctx context.Context, dir string, list []Listed) error {
	once, cancel := context.WithCancel(ctx)
	cancel() // it waits for no controller that does not run
	c, err := Drive(once, Access{State: dir}, Watch{})
	if err != nil {
		return nil
	}
	defer c.Close()
	ctx, cancel = context.WithTimeout(ctx, answerWithin)
	defer cancel()
	// https://docs.nats.io/running-a-nats-service/configuration/sys_accounts; 2: open and closed ones
	m, err := c.nc.RequestWithContext(ctx, "$SYS.REQ.ACCOUNT.PING.CONNZ", []byte(`{"auth":true,"state":2,"limit":16384}`))
	var answer struct {
		Data struct {
			Connections []struct {
				User string    `json:"authorized_user"`
				Stop time.Time `json:"stop"`
			} `json:"connections"`
		} `json:"data"`
	}
	if err == nil {
		err = json.Unmarshal(m.Data, &answer)
	}
	if err != nil {
		return fmt.Errorf("the controller's connections: %w", gone(err))
	}
	for _, c := range answer.Data.Connections {
		i := slices.IndexFunc(list, func(l Listed) bool { return l.User == c.User })
		if i < 0 {
			continue // the driver's
		}
		if c.Stop.IsZero() {
			list[i].Agents++
			c.Stop = time.Now()
		}
		if c.Stop.After(list[i].Last) {
			list[i].Last = c.Stop
		}
	}
	return nil
}

// CreateToken creates a token that agents may join with from now on, even while the controller
// runs. It cannot be shown again: its secret is not stored.
func CreateToken(dir string, life time.Duration) (Token, error) {
	s, err := readState(dir)
	if err != nil {
		return Token{}, err
	}
	if life <= 0 || life > TokenLifeMost {
		return Token{}, fmt.Errorf("a token is valid for more than 0 and at most %d days", int(TokenLifeMost.Hours()/24))
	}
	return addToken(dir, s, life)
}

// addToken makes a token and adds it to the list. One that was revoked stays there until it would have
// expired: the list is what refuses it.
func addToken(dir string, s *State, life time.Duration) (Token, error) {
	t, err := s.newToken(life)
	if err != nil {
		return Token{}, err
	}
	return t, changePasses(dir, func(list []Pass) ([]Pass, error) {
		if len(list) >= tokensMost {
			list = slices.DeleteFunc(list, func(p Pass) bool { return !p.Expires.After(t.Made) })
		}
		return append(list, t.Pass), nil
	})
}

// RevokeToken revokes a token. A running controller disconnects its agents within two seconds.
func RevokeToken(dir, id string) (Pass, error) {
	if _, err := readState(dir); err != nil {
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

// ReadPasses reads tokens.json, which may be missing.
func ReadPasses(dir string) ([]Pass, error) {
	name := filepath.Join(dir, tokensName)
	b, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var list []Pass
	if err == nil {
		err = json.Unmarshal(b, &list)
	}
	for i, p := range list {
		if err == nil && (!nkeys.IsValidPublicUserKey(p.User) || p.Made.IsZero() || p.Expires.IsZero()) {
			err = fmt.Errorf("token %d of the list lacks a user or a date", i+1)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
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
	return writeJSON(filepath.Join(dir, tokensName), list)
}

// OwnToken returns the token that the controller hands out itself: the one in its directory, or a
// new one if that is no longer valid.
func OwnToken(dir string, s *State) (Token, error) {
	list, err := ReadPasses(dir)
	if err != nil {
		return Token{}, err
	}
	name := filepath.Join(dir, TokenFile)
	b, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Token{}, err
	}
	if t, err := ParseToken(string(b)); err == nil && // otherwise replace it
		slices.ContainsFunc(list, func(p Pass) bool { return p.User == t.User && p.State(time.Now()) == TokenValid }) {
		return t, nil
	}
	t, err := addToken(dir, s, TokenLife)
	if err != nil {
		return t, err
	}
	return t, writeWhole(name, []byte(t.String()+"\n"))
}
