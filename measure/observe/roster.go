//go:build linux

package observe

import (
	"math/rand/v2"
	"net/netip"

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

// readRoster lists all sockets of the target.
func readRoster(e *ends) (*socketTable, error) {
	type tuple struct{ from, to netip.AddrPort }
	r := &socketTable{}
	var servers []sockID
	var waiting []bool       // of each, whether it is in the accept queue
	at := map[tuple]int{}    // of the server's ends, by its own and the client's address
	mate := map[int]sockID{} // their clients
	var clients []sockID
	var keys []tuple
	err := e.each(func(which end, s *inetSocket) {
		local, remote := netip.AddrPortFrom(s.src, s.sport), netip.AddrPortFrom(s.dst, s.dport)
		settled := s.state == tcpEstablished || s.state == tcpCloseWait
		if which == endServer {
			addQueues(&r.server, s)
			if settled {
				at[tuple{local, remote}] = len(servers)
				servers, waiting = append(servers, s.key()), append(waiting, s.inode == 0)
			}
			return
		}
		addQueues(&r.client, s)
		if settled {
			clients, keys = append(clients, s.key()), append(keys, tuple{remote, local})
		}
	})
	if err != nil {
		return nil, err
	}
	for i, k := range keys {
		if j, ok := at[k]; ok {
			mate[j] = clients[i]
			r.pairs = append(r.pairs, connection{client: clients[i], server: servers[j]})
			r.count(waiting[j])
		}
	}
	if len(r.pairs) > 0 {
		return r, nil
	}
	for _, one := range waiting {
		r.count(one)
	}
	// The other end is on another host, or the addresses are translated on the way.
	for i := range max(len(clients), len(servers)) {
		var p connection
		if i < len(clients) {
			p.client = clients[i]
		}
		if i < len(servers) {
			p.server = servers[i]
		}
		r.pairs = append(r.pairs, p)
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
