//go:build linux

package observe

import (
	"bytes"
	"math/rand/v2"
	"slices"

	"ceiling/record"
)

// A roster has the run's connections from one full list: look-ups choose from it. It is immutable.
type socketTable struct {
	// pairs are the connections that look-ups are drawn from: those with both ends in the list, or
	// else the ends there are.
	pairs []connection
	// client and server are the sums over all sockets of the list.
	client, server record.EndQueues
	// listed counts the pairs, or the server's ends if the clients are elsewhere.
	listed record.Listing
}

// A connection is its two ends; an end that was not listed has family 0.
type connection struct{ client, server sockID }

// looksAt is how many connections one look samples.
const looksAt = 2

// readRoster lists all sockets of the target, about as many as last time. The ends of a connection
// find each other by sorting, in place: with 9,000 connections a map of addresses and its keys
// were 15 MB of garbage a list, two thirds of a run's allocations.
func readRoster(e *ends, about int) (*socketTable, error) {
	type serverEnd struct {
		sockID
		waiting bool // in the accept queue
	}
	r := &socketTable{pairs: make([]connection, 0, about)}
	servers := make([]serverEnd, 0, about)
	err := e.each(func(which end, s *inetSocket) {
		settled := s.state == tcpEstablished || s.state == tcpCloseWait
		if which == endServer {
			addQueues(&r.server, s)
			if settled {
				servers = append(servers, serverEnd{s.key(), s.inode == 0})
			}
			return
		}
		addQueues(&r.client, s)
		if settled {
			r.pairs = append(r.pairs, connection{client: s.key()})
		}
	})
	if err != nil {
		return nil, err
	}
	order := func(s serverEnd, ends [tupleBytes]byte) int { return bytes.Compare(s.id[:tupleBytes], ends[:]) }
	slices.SortFunc(servers, func(a, b serverEnd) int { return order(a, b.tuple()) })
	found := 0
	for _, p := range r.pairs {
		if j, ok := slices.BinarySearchFunc(servers, p.client.peer(), order); ok {
			r.pairs[found] = connection{p.client, servers[j].sockID}
			found++
			r.count(servers[j].waiting)
		}
	}
	if found > 0 {
		r.pairs = r.pairs[:found]
		return r, nil
	}
	// The other end is on another host, or the addresses are translated on the way.
	for i, s := range servers {
		if r.count(s.waiting); i == len(r.pairs) {
			r.pairs = append(r.pairs, connection{})
		}
		r.pairs[i].server = s.sockID
	}
	return r, nil
}

// count adds a connection whose server end is known.
func (r *socketTable) count(unaccepted bool) {
	r.listed.Connections++
	if unaccepted {
		r.listed.Unaccepted++
	}
}

// draw chooses up to n different pairs, all equally likely (Floyd's algorithm: no more random
// numbers than pairs).
func (r *socketTable) draw(rng *rand.Rand, n int, into []int) []int {
	into = into[:0]
	all := len(r.pairs)
	n = min(n, all)
	for j := all - n; j < all; j++ {
		k := rng.IntN(j + 1)
		for _, have := range into {
			if have == k {
				k = j
				break
			}
		}
		into = append(into, k)
	}
	// Floyd's order is biased: the last chosen are more often the newest.
	rng.Shuffle(len(into), func(a, b int) { into[a], into[b] = into[b], into[a] })
	return into
}
