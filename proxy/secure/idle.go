package secure

import (
	"cmp"
	"crypto/tls"
	"net"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"ceiling/internal/sys"
	"ceiling/proxy"
)

// At the limit of connections, idle clients are closed, the longest idle first, as at the loops
// (proxy/idle.go).

const (
	// crowdedTurn is how long a new client waits before the next search for idle ones.
	crowdedTurn = 5 * time.Millisecond
	// lookShare bounds the search to 1/lookShare of a core.
	lookShare = 20
	// leaveMost is how long a new client waits for an evicted one to be gone.
	leaveMost = time.Second
)

// idler is a client with a completed handshake.
type idler struct {
	raw   net.Conn
	since *atomic.Int64 // Unix nanoseconds; 0 during a request
	ended atomic.Bool   // to make room
	end   func()
}

// waiting is an idler's state when the idle ones were searched.
type waiting struct {
	*idler
	since int64
}

// waking marks a client as no longer idle, before the loop can know.
type waking struct {
	client *tls.Conn
	since  *atomic.Int64
}

func (w *waking) Read(b []byte) (int, error) {
	n, err := w.client.Read(b)
	w.since.Store(0)
	return n, err
}

// restH2 notes whether an HTTP/2 client has an open stream.
func (s *Server) restH2(conn net.Conn, idle bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.idlers[s.raws[conn]]
	switch {
	case one == nil:
	case idle:
		one.since.Store(time.Now().UnixNano())
	default:
		one.since.Store(0)
	}
}

// makeRoom takes a place for a new client, an idle client's if there is no other; false if the
// server ended first.
func (s *Server) makeRoom() bool {
	var going *idler
	var asked time.Time
	for {
		select {
		case s.room <- struct{}{}:
			return true
		default:
		}
		if s.hasEnded() {
			return false
		}
		began := time.Now()
		if going == nil || began.Sub(asked) > leaveMost || s.gone(going) {
			going, asked = s.evict(began), began
		}
		select {
		case s.room <- struct{}{}:
			return true
		case <-time.After(max(crowdedTurn, lookShare*time.Since(began))):
		}
	}
}

// evict ends the longest idle client; nil if there is none.
func (s *Server) evict(now time.Time) *idler {
	one := s.longestIdle(now)
	if one != nil {
		one.ended.Store(true)
		one.end()
		s.counts.evicted.Add(1)
	}
	return one
}

func (s *Server) hasEnded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

func (s *Server) gone(one *idler) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.idlers[one.raw] != one
}

// longestIdle returns the client that has been idle longest. It spares those whose next request
// is in their socket.
func (s *Server) longestIdle(now time.Time) *idler {
	s.mu.Lock()
	defer s.mu.Unlock()
	ripe := now.Add(-proxy.LeastIdle).UnixNano()
	for range 2 {
		for len(s.longest) > 0 {
			one := s.longest[len(s.longest)-1]
			s.longest = s.longest[:len(s.longest)-1]
			if s.idlers[one.raw] == one.idler && one.idler.since.Load() == one.since && !one.ended.Load() && !speaks(one.raw) {
				s.crowded(now)
				return one.idler
			}
		}
		for _, i := range s.idlers {
			if since := i.since.Load(); since > 0 && since <= ripe && !i.ended.Load() {
				s.longest = append(s.longest, waiting{i, since})
			}
		}
		slices.SortFunc(s.longest, func(a, b waiting) int { return cmp.Compare(b.since, a.since) })
	}
	return nil
}

// crowded reports why idle clients are closed, at most once per proxy.CrowdedAgain.
func (s *Server) crowded(now time.Time) {
	if s.reported.IsZero() || now.Sub(s.reported) > proxy.CrowdedAgain {
		s.reported = now
		s.report("tls: the limit of connections is reached: idle clients are closed, the longest idle first")
	}
}

// speaks reports whether a client's socket has unread bytes: the beginning of a request.
func speaks(raw net.Conn) (yes bool) {
	c, ok := raw.(syscall.Conn)
	if !ok {
		return false
	}
	socket, err := c.SyscallConn()
	if err != nil { // already closed
		return false
	}
	err = socket.Control(func(fd uintptr) { yes = sys.HasUnread(int(fd)) })
	return err == nil && yes
}
