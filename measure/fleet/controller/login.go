package controller

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"ceiling/measure/fleet/bus"

	"github.com/nats-io/nats-server/v2/server"
)

// gate decides who may log in to the embedded server, and as which user.
//
// Agents present a token's secret, which many may share. So that one cannot impersonate another,
// and two hosts with one name are detected, each also presents its own secret, drawn at its start:
// while an agent of a name is connected, only that second secret gets the name.
type gate struct {
	bed    string
	book   *passBook
	driver [32]byte // SHA-256 of the secret of the controller's own processes
	note   func(format string, a ...any)
	alive  func(client uint64) bool
	kick   func(client uint64)

	mu      sync.Mutex
	holders map[string]holder
}

type holder struct {
	own     [32]byte // SHA-256 of its own secret
	token   string   // hash of the token it joined with
	clients []uint64 // its connections; a dead one is dropped at the next check
	from    string
}

func newGate(s *bus.State, book *passBook, note func(string, ...any)) *gate {
	return &gate{
		bed:     s.Bed,
		book:    book,
		driver:  sha256.Sum256([]byte(hex.EncodeToString(s.Driver[:]))),
		note:    note,
		holders: map[string]holder{},
	}
}

// Check is called by the server for every login, from many goroutines.
func (g *gate) Check(c server.ClientAuthentication) bool {
	from := "an unknown address"
	if a := c.RemoteAddress(); a != nil {
		from = a.String()
	}
	if c.GetTLSConnectionState() == nil {
		g.note("login from %s refused: without TLS", from)
		return false
	}
	o := c.GetOpts()
	if o.Username == bus.DriverName {
		if !same(o.Password, g.driver) {
			g.note("login from %s as the controller refused: wrong key", from)
			return false
		}
		c.RegisterUser(&server.User{Username: bus.DriverName})
		return true
	}
	secret, own, ok := strings.Cut(o.Password, ".")
	p, state, known := g.book.find(secret)
	if why, asks := strings.CutPrefix(o.Username, bus.WhyPrefix); asks {
		if !known || why != string(state) {
			return false
		}
		// It has no permissions, and is soon disconnected.
		nothing := &server.SubjectPermission{Deny: []string{">"}}
		c.RegisterUser(&server.User{Username: o.Username, ConnectionDeadline: time.Now().Add(bus.AskWithin),
			Permissions: &server.Permissions{Publish: nothing, Subscribe: nothing}})
		return true
	}
	switch {
	case !known || !ok || len(own) < 16:
		g.note("login from %s refused: wrong token", from)
		return false
	case state != bus.TokenValid:
		g.note("login from %s refused: token %s is %s", from, p.ID(), state)
		return false
	}
	if err := bus.CheckName(o.Username); err != nil {
		g.note("login from %s refused: %v", from, err)
		return false
	}
	other := g.take(o.Username, own, p.Hash, c.GetID(), from)
	for end := time.Now().Add(successionWithin); other != "" && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
		other = g.take(o.Username, own, p.Hash, c.GetID(), from)
	}
	if other != "" {
		g.note("login from %s refused: another agent is called %s, at %s; start this one with another name", from, o.Username, other)
		return false
	}
	c.RegisterUser(&server.User{Username: o.Username, Permissions: natsPermissions(bus.AgentPermissions(g.bed, o.Username))})
	return true
}

// successionWithin is for an agent that was killed and restarted at once: its old connection may
// end after the new one begins.
const successionWithin = time.Second

// same compares in constant time, whatever the lengths.
func same(given string, want [32]byte) bool {
	sum := sha256.Sum256([]byte(given))
	return subtle.ConstantTimeCompare(sum[:], want[:]) == 1
}

// take gives name to a connection, or returns who has it.
func (g *gate) take(name, own, token string, client uint64, from string) (other string) {
	sum := sha256.Sum256([]byte(own))
	g.mu.Lock()
	defer g.mu.Unlock()
	h := g.holders[name]
	living := h.clients[:0]
	for _, c := range h.clients {
		if g.alive(c) {
			living = append(living, c)
		}
	}
	if len(living) > 0 && subtle.ConstantTimeCompare(sum[:], h.own[:]) != 1 {
		h.clients = living
		g.holders[name] = h
		return h.from
	}
	if len(g.holders) >= maxConnections {
		maps.DeleteFunc(g.holders, func(_ string, h holder) bool { return !slices.ContainsFunc(h.clients, g.alive) })
	}
	g.holders[name] = holder{own: sum, token: token, clients: append(living, client), from: from}
	return ""
}

func natsPermissions(p bus.Permissions) *server.Permissions {
	n := &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: p.Publish},
		Subscribe: &server.SubjectPermission{Allow: p.Subscribe},
	}
	if p.Answer {
		n.Response = &server.ResponsePermission{MaxMsgs: bus.AnswersMost, Expires: bus.AnswersFor}
	}
	return n
}

// loginLimiter limits the handshakes per second of one address, so that a flood of logins takes
// neither the controller's CPU nor other clients' turns. Refused clients retry later, as agents do.
type loginLimiter struct {
	mu     sync.Mutex
	second int64
	seen   map[string]int
}

// handshakesPerSecond of one address. A handshake takes 0.3 ms of CPU.
const handshakesPerSecond = 100

func newLoginLimiter() *loginLimiter { return &loginLimiter{seen: map[string]int{}} }

// check is a tls.Config's GetConfigForClient: nil, nil continues.
func (t *loginLimiter) check(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	from := hello.Conn.RemoteAddr().String()
	if host, _, err := net.SplitHostPort(from); err == nil {
		from = host
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := time.Now().Unix(); now != t.second {
		t.second = now
		clear(t.seen)
	}
	if t.seen[from]++; t.seen[from] > handshakesPerSecond {
		return nil, fmt.Errorf("more than %d logins a second from %s", handshakesPerSecond, from)
	}
	return nil, nil
}
