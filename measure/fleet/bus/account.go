package bus

import (
	"errors"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// agentPermissions are what an agent of bed needs, by that ID, and all it
// needs: the embedded server gives it these, and in an organisation's own
// cluster, where its ID is its name, its user should have them (testdata/accounts.conf). The driver's user
// there makes streams and buckets, for which NATS has no narrower permission
// than the account's whole JetStream: an account for each test bed keeps the
// drivers apart.
//
//   - It subscribes to its own commands and pings, and its own inbox.
//   - It publishes reports and its offer under its ID.
//   - It may ask whether another agent has its name, and answer that.
func agentPermissions(bed, id string) jwt.Permissions {
	return jwt.Permissions{
		Pub:  jwt.Permission{Allow: jwt.StringList{reportSubject(bed, "*", id), offerSubject(bed, id), nameSubject(bed, "*")}},
		Sub:  jwt.Permission{Allow: jwt.StringList{agentSubject(bed, id, ">"), inbox(bed, id) + ".>", nameSubject(bed, "*")}},
		Resp: &jwt.ResponsePermission{MaxMsgs: 1, Expires: 5 * time.Minute}, // a long command's, too
	}
}

// Account is what the server has to know of the NATS account of the test bed. Users that the key of
// agents signed have an agent's permissions, below a subject of their own.
func (s *State) Account(tokens []Pass) (*jwt.AccountClaims, error) {
	_, account, err1 := pair(s.AccountSeed)
	agents := jwt.NewUserScope()
	_, key, err2 := pair(s.AgentsSeed)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	agents.Key, agents.Role = key, "agent"
	agents.Template.Permissions = agentPermissions(s.Bed, "{{subject()}}.*")
	claims := jwt.NewAccountClaims(account)
	claims.Name = s.Bed
	claims.SigningKeys.AddScopedSigner(agents)
	claims.Limits.JetStreamLimits = jwt.JetStreamLimits{
		MemoryStorage: jwt.NoLimit, DiskStorage: jwt.NoLimit, Streams: jwt.NoLimit, Consumer: jwt.NoLimit,
	}
	for _, t := range tokens {
		if !t.Revoked.IsZero() {
			claims.RevokeAt(t.User, t.Revoked)
		}
	}
	return claims, nil
}

// newToken makes a user that may act as an agent.
func (s *State) newToken(life time.Duration) (Token, error) {
	_, account, err1 := pair(s.AccountSeed)
	key, _, err2 := pair(s.AgentsSeed)
	if err := errors.Join(err1, err2); err != nil {
		return Token{}, err
	}
	certificate := fingerprint(s.Certificate)
	claims, text, seed, err := newUser(key, func(c *jwt.UserClaims) {
		c.Name, c.IssuerAccount = s.Bed, account
		c.Tags.Add(certificateTag + ":" + certificate)
		c.Expires = time.Now().Add(max(life.Round(time.Second), time.Second)).Unix()
		c.SetScoped(true)
	})
	if err != nil {
		return Token{}, err
	}
	return tokenOf(claims, text, seed, certificate), nil
}

// driver makes a user with all rights in the test bed.
func (s *State) driver() (nats.Option, error) {
	key, _, err := pair(s.AccountSeed)
	if err != nil {
		return nil, err
	}
	_, text, seed, err := newUser(key, func(c *jwt.UserClaims) { c.Name = driverName })
	return nats.UserJWTAndSeed(text, seed), err
}

// newUser makes a user and its key; signer vouches for it.
func newUser(signer nkeys.KeyPair, describe func(*jwt.UserClaims)) (claims *jwt.UserClaims, text, seed string, err error) {
	if seed, err = newSeed(nkeys.PrefixByteUser); err != nil {
		return nil, "", "", err
	}
	_, public, err := pair(seed)
	if err != nil {
		return nil, "", "", err
	}
	claims = jwt.NewUserClaims(public)
	describe(claims)
	text, err = claims.Encode(signer)
	return claims, text, seed, err
}

// pair is the pair of keys of a seed, and the public one as text.
func pair(seed string) (key nkeys.KeyPair, public string, err error) {
	if key, err = nkeys.FromSeed([]byte(seed)); err == nil {
		public, err = key.PublicKey()
	}
	return key, public, err
}

func newSeed(of nkeys.PrefixByte) (string, error) {
	key, err := nkeys.CreatePair(of)
	if err != nil {
		return "", err
	}
	seed, err := key.Seed()
	return string(seed), err
}
