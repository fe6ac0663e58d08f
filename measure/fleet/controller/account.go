package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"ceiling/internal/pause"
	"ceiling/measure/fleet/bus"
)

// trust gives a server the test bed's account, and the account that NATS needs for itself. The
// operator that vouches for both is made for this one start, since nobody else has to trust it.
func (s *Server) trust(o *server.Options) error {
	operator, err1 := nkeys.CreateOperator()
	system, err2 := nkeys.CreateAccount()
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	trusted, err1 := operator.PublicKey()
	account, err2 := system.PublicKey()
	tokens, err3 := bus.ReadPasses(s.dir)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	o.TrustedKeys, o.SystemAccount = []string{trusted}, account
	bed, err := s.state.Account(tokens)
	if err != nil {
		return err
	}
	s.revoked = bed.Revocations
	resolver := &server.MemAccResolver{}
	o.AccountResolver = resolver
	for _, claims := range []*jwt.AccountClaims{bed, jwt.NewAccountClaims(o.SystemAccount)} {
		text, err := claims.Encode(operator)
		if err != nil {
			return err
		}
		if err := resolver.Store(claims.Subject, text); err != nil {
			return err
		}
	}
	return nil
}

// sweepEvery is how soon agents of a revoked token are disconnected.
const sweepEvery = time.Second

// sweep tells the server which tokens were revoked, until the controller ends. A list that cannot
// be read is reported once, and changes nothing.
func (s *Server) sweep(ctx context.Context) {
	failed := false
	pause.Every(ctx, sweepEvery, func() {
		err := s.revoke()
		if err != nil && !failed {
			s.log.line("%v: tokens that were revoked since are refused once it can be read", err)
		}
		failed = err != nil
	})
}

func (s *Server) revoke() error {
	tokens, err := bus.ReadPasses(s.dir)
	if err != nil {
		return err
	}
	claims, err := s.state.Account(tokens)
	if err != nil {
		return err
	}
	if maps.Equal(claims.Revocations, s.revoked) {
		return nil
	}
	for _, t := range tokens {
		if _, before := s.revoked[t.User]; !before && t.State(time.Now()) == bus.TokenRevoked {
			s.log.line("token %s was revoked: NATS disconnects its agents", t.ID())
		}
	}
	account, err := s.nats.LookupAccount(claims.Subject)
	if err != nil {
		return fmt.Errorf("the test bed's account: %w", err)
	}
	s.nats.UpdateAccountClaims(account, claims)
	s.revoked = claims.Revocations
	return nil
}
