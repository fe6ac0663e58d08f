package controller

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"ceiling/internal/unit"
	"ceiling/measure/fleet/bus"
)

// passBook is what a running controller knows about its tokens.
type passBook struct {
	dir  string
	note func(format string, a ...any)

	mu      sync.Mutex
	file    fs.FileInfo // at the last read
	failed  bool        // a failure was already reported
	passes  map[string]bus.Pass
	uses    map[string]bus.Use // by ID
	written time.Time          // when the uses were written
	warned  map[string]bool    // hashes whose expiry was already announced
}

func newPassBook(dir string, note func(string, ...any)) (*passBook, error) {
	b := &passBook{dir: dir, note: note}
	var err error
	if b.uses, err = bus.ReadUses(dir); err != nil {
		note("%v; when tokens were used is forgotten", err)
		b.uses = map[string]bus.Use{}
	}
	b.warned = map[string]bool{}
	return b, b.read()
}

// read loads what was created and revoked since the last read.
func (b *passBook) read() error {
	name := filepath.Join(b.dir, bus.TokensName)
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	if b.file != nil && os.SameFile(info, b.file) && info.ModTime().Equal(b.file.ModTime()) && info.Size() == b.file.Size() {
		return nil
	}
	list, err := bus.ReadPasses(b.dir)
	if err != nil {
		return err
	}
	b.passes = map[string]bus.Pass{}
	for _, p := range list {
		b.passes[p.Hash] = p
	}
	b.file = info
	return nil
}

// refresh keeps the known tokens if the file cannot be read: a damaged file admits no agent, and
// disconnects none.
func (b *passBook) refresh() {
	err := b.read()
	if err != nil && !b.failed {
		b.note("%v: tokens that were created or revoked since count once it can be read", err)
	}
	b.failed = err != nil
}

// find returns the token with this secret, and its current state.
func (b *passBook) find(secret string) (p bus.Pass, s bus.TokenState, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refresh()
	p, known = b.passes[bus.HashOf(secret)]
	return p, p.State(time.Now()), known
}

// states returns the states of all tokens, by hash.
func (b *passBook) states(now time.Time) map[string]bus.TokenState {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refresh()
	all := map[string]bus.TokenState{}
	for hash, p := range b.passes {
		all[hash] = p.State(now)
	}
	return all
}

// expireSoon is how long before the expiry of a token in use a controller warns.
const expireSoon = 24 * time.Hour

// warn reports once for each token in use that it expires soon.
func (b *passBook) warn(agents map[string]int, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for hash, n := range agents {
		p := b.passes[hash]
		if b.warned[hash] || p.Expires.Sub(now) > expireSoon {
			continue
		}
		b.warned[hash] = true
		b.note("token %s expires at %s and its agents end then (%d now): make another: ceiling fleet tokens create",
			p.ID(), p.Expires.Local().Format("2006-01-02 15:04:05"), n)
	}
}

// useWritten is how stale the written time of the last use may become.
const useWritten = time.Minute

// used records how many agents are connected with each token, by hash, and writes it when that
// changed, or every minute.
func (b *passBook) used(agents map[string]int, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	changed := len(agents) > 0 && now.Sub(b.written) >= useWritten
	uses := map[string]bus.Use{}
	for hash, p := range b.passes {
		u := b.uses[p.ID()]
		if u.Agents != agents[hash] {
			changed = true
		}
		if agents[hash] > 0 || u.Agents > 0 { // or were until now
			u.Last = now.UTC().Truncate(time.Second)
		}
		if u.Agents = agents[hash]; !u.Last.IsZero() {
			uses[p.ID()] = u
		}
	}
	b.uses = uses
	if !changed {
		return
	}
	b.written = now
	if err := bus.WriteJSON(filepath.Join(b.dir, bus.UsesName), b.uses); err != nil {
		b.note("%v: when tokens were used is not written", err)
	}
}

// sweepEvery is how soon agents of an invalid token are disconnected.
const sweepEvery = time.Second

// sweep checks the tokens of connected agents until the controller ends.
func (s *Server) sweep() {
	defer close(s.swept)
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		s.mu.Lock()
		gate := s.gate
		s.mu.Unlock()
		select {
		case <-s.closed:
			s.book.used(nil, time.Now())
			return
		case <-tick.C:
			gate.sweep(time.Now())
		}
	}
}

// sweep disconnects agents with an invalid token, and counts the others.
func (g *gate) sweep(now time.Time) {
	states := g.book.states(now)
	agents, ended := map[string]int{}, map[string]int{}
	g.mu.Lock()
	var kick []uint64
	for _, h := range g.holders {
		living := slices.DeleteFunc(slices.Clone(h.clients), func(c uint64) bool { return !g.alive(c) })
		switch {
		case len(living) == 0:
		case states[h.token] == bus.TokenValid:
			agents[h.token]++
		default:
			ended[h.token]++
			kick = append(kick, living...)
		}
	}
	g.mu.Unlock()
	for hash, n := range ended {
		word := map[bus.TokenState]string{bus.TokenExpired: "has expired", bus.TokenRevoked: "was revoked", "": "is no longer known"}[states[hash]]
		g.note("token %s %s: disconnected %s", bus.ShortID(hash), word, unit.Plural(n, "agent", "agents"))
	}
	for _, c := range kick {
		g.kick(c)
	}
	g.book.warn(agents, now)
	g.book.used(agents, now)
}
