// Package access decides whose requests a location takes: by address, by password, by another
// service's word, and from which sites' pages.
package access

import (
	"cmp"
	"net/netip"
	"slices"
)

// Networks are the addresses that may come in.
type Networks struct {
	rules     []rule // the longest prefix first; of equal ones the denied first
	otherwise bool   // what becomes of an address in no network
}

type rule struct {
	network netip.Prefix
	admit   bool
}

// NewNetworks admits every address if there is no allow, and otherwise those in it. Where several
// networks contain an address, the longest prefix decides.
func NewNetworks(allow, deny []netip.Prefix) *Networks {
	n := &Networks{otherwise: len(allow) == 0}
	for _, p := range deny {
		n.otherwise = n.otherwise && p.Bits() > 0
		n.rules = append(n.rules, rule{p, false})
	}
	for _, p := range allow {
		n.rules = append(n.rules, rule{p, true})
	}
	slices.SortStableFunc(n.rules, func(a, b rule) int { return cmp.Compare(b.network.Bits(), a.network.Bits()) })
	return n
}

// Admits reports whether an address may come in. The zero address is that of a client over a unix
// socket: it is in no network, and is denied with all.
func (n *Networks) Admits(a netip.Addr) bool {
	a = a.Unmap()
	for _, r := range n.rules {
		if r.network.Contains(a) {
			return r.admit
		}
	}
	return n.otherwise
}
