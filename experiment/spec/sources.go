package spec

import (
	"fmt"
	"net/netip"
	"strings"
)

// sourcesMax bounds a range of source addresses: that many connections each take
// all of one's ports.
const sourcesMax = 1 << 16

// ParseSource reads a local address, or a range of them as in 10.0.0.0/28; an
// address is a range of one.
func ParseSource(text string) (netip.Prefix, error) {
	var p netip.Prefix
	var err error
	if strings.Contains(text, "/") {
		p, err = netip.ParsePrefix(text)
	} else {
		var a netip.Addr
		if a, err = netip.ParseAddr(text); err == nil {
			p = netip.PrefixFrom(a.WithZone("").Unmap(), a.Unmap().BitLen())
			if a.Zone() != "" {
				err = fmt.Errorf("it has a zone")
			}
		}
	}
	switch {
	case err != nil:
		return p, fmt.Errorf("source address: %s is none; give an address of this host, or a range, as in 10.0.0.2 or 10.0.0.0/28",
			quoteShort(text))
	case p.Addr().Is4In6():
		return p, fmt.Errorf("source address: %s is IPv4 in IPv6; write it as IPv4", quoteShort(text))
	case p.Addr().BitLen()-p.Bits() > 16:
		return p, fmt.Errorf("source address: the range %s has more than %d addresses; give a smaller one", text, sourcesMax)
	}
	return p.Masked(), nil
}

// checkSources looks at the source addresses as far as no machine is needed.
func (s *Spec) checkSources() error {
	if len(s.SourceIPs) == 0 {
		return nil
	}
	to, _, _, err := ParseTarget(s.Targets[0].URL)
	if err != nil {
		return err
	}
	if to.Network != TCP {
		return fmt.Errorf("source addresses: a unix socket has none; leave --source-ips out")
	}
	if len(s.SourceIPs) > sourcesMax {
		return fmt.Errorf("source addresses: %d are too many, at most %d; give a range", len(s.SourceIPs), sourcesMax)
	}
	for _, text := range s.SourceIPs {
		if _, err := ParseSource(text); err != nil {
			return err
		}
	}
	return nil
}
