package access

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/netip"
	"runtime"
	"sync"

	"golang.org/x/crypto/bcrypt"
)

// Passwords are users with bcrypt hashes. A hash takes tens of milliseconds, so a password that was
// right is known again by a keyed hash, as long as this value lives.
type Passwords struct {
	users   map[string][]byte
	decoy   []byte // hash for unknown names, which must take as long as known ones
	secret  [32]byte
	turns   chan struct{} // to hash: guessing must leave CPUs to other requests
	mu      sync.RWMutex  // of what follows
	correct map[[sha256.Size]byte]struct{}
	queues  map[netip.Addr]*queue
}

// queue is one address's: of these one at a time waits for Passwords.turns, so that an address that guesses
// does not keep the others from theirs.
type queue struct {
	turn    chan struct{}
	waiting int
}

// waitingMost bounds a queue.
const waitingMost = 8

// ErrCrowded is that an address has too many passwords checked.
var ErrCrowded = errors.New("too many passwords of one address")

// rememberedMost bounds Passwords.correct; beyond it, all are checked once more.
const rememberedMost = 10_000

// NewPasswords takes hashes by user name, all of them valid.
func NewPasswords(hashes map[string]string) *Passwords {
	p := &Passwords{users: map[string][]byte{}, correct: map[[sha256.Size]byte]struct{}{}, queues: map[netip.Addr]*queue{},
		turns: make(chan struct{}, max(1, runtime.NumCPU()/2))}
	for name, hash := range hashes {
		p.users[name] = []byte(hash)
		p.decoy = []byte(hash)
	}
	_, _ = rand.Read(p.secret[:]) // never fails (crypto/rand)
	return p
}

// Credentials parses the value of an Authorization field (RFC 7617).
func Credentials(field []byte) (user, password []byte, ok bool) {
	scheme, text, _ := bytes.Cut(field, []byte{' '})
	if !bytes.EqualFold(scheme, []byte("basic")) {
		return nil, nil, false
	}
	plain, err := base64.StdEncoding.AppendDecode(nil, bytes.TrimSpace(text))
	if err != nil {
		return nil, nil, false
	}
	return bytes.Cut(plain, []byte{':'})
}

// Known reports whether this password was right before. It takes a microsecond.
func (p *Passwords) Known(user, password []byte) bool {
	key := p.key(user, password)
	p.mu.RLock()
	defer p.mu.RUnlock()
	_, known := p.correct[key]
	return known
}

// Check reports whether the password, from an address, is right. It takes as long as the hash wants, and
// waits while too many do; the error is ErrCrowded, or that of ctx.
func (p *Passwords) Check(ctx context.Context, from netip.Addr, user, password []byte) (bool, error) {
	q := p.join(from)
	if q == nil {
		return false, ErrCrowded
	}
	defer p.part(from, q)
	for _, turn := range []chan struct{}{q.turn, p.turns} {
		select {
		case turn <- struct{}{}:
			defer func() { <-turn }()
		case <-ctx.Done():
		}
		if ctx.Err() != nil { // the client has left
			return false, ctx.Err()
		}
	}
	if p.Known(user, password) { // another request of the same page had it
		return true, nil
	}
	hash, exists := p.users[string(user)]
	if !exists {
		hash = p.decoy
	}
	right := bcrypt.CompareHashAndPassword(hash, password[:min(len(password), passwordMost)]) == nil
	if !right || !exists {
		return false, nil
	}
	key := p.key(user, password)
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.correct) >= rememberedMost {
		clear(p.correct)
	}
	p.correct[key] = struct{}{}
	return true, nil
}

// join enters the queue of an address; nil if it is full.
func (p *Passwords) join(from netip.Addr) *queue {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.queues[from]
	switch {
	case q == nil:
		q = &queue{turn: make(chan struct{}, 1)}
		p.queues[from] = q
	case q.waiting == waitingMost:
		return nil
	}
	q.waiting++
	return q
}

func (p *Passwords) part(from netip.Addr, q *queue) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if q.waiting--; q.waiting == 0 {
		delete(p.queues, from)
	}
}

// passwordMost is what bcrypt takes of a password: htpasswd hashes no more of a longer one.
const passwordMost = 72

func (p *Passwords) key(user, password []byte) (sum [sha256.Size]byte) {
	h := hmac.New(sha256.New, p.secret[:])
	h.Write(user)
	h.Write([]byte{':'}) // no name has one
	h.Write(password)
	h.Sum(sum[:0])
	return sum
}
