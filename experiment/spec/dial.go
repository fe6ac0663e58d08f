package spec

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// Dial overrides the destination and the source of connections. The request, the TLS server name
// and the name verified in the certificate remain the URL's.
type Dial struct {
	// SourceIPs are the local addresses that connections are spread over: each an address, or a range such as
	// 10.0.0.0/28, from which the load host's addresses are used. Empty: the kernel chooses.
	SourceIPs []string `json:"source_ips,omitempty" yaml:"source_ips,omitempty" jsonschema:"local addresses, or ranges as in 10.0.0.0/28, to spread the connections over"`
	// Resolve overrides DNS for hosts, as curl's --resolve does: HOST:PORT:ADDRESS, where host *
	// is any. Of several comma-separated addresses the first that accepts is used.
	Resolve []string `json:"resolve,omitempty" yaml:"resolve,omitempty" jsonschema:"addresses in place of a look-up, HOST:PORT:ADDRESS as for curl"`
	// Unix is the path of a socket to connect to instead of the URL's host.
	Unix string `json:"unix,omitempty" yaml:"unix,omitempty" jsonschema:"path of a socket to connect to in place of the URL's host"`
	// AllAddresses spreads the connections over all addresses of the URL's host that accept at the
	// start, in turn; otherwise they all go to the first of them.
	AllAddresses bool `json:"all_addresses,omitempty" yaml:"all_addresses,omitempty" jsonschema:"spread the connections over all addresses of the URL's host"`
	// Proxy is the URL of an HTTP proxy that the connections go through: http://[USER:PASSWORD@]HOST:PORT.
	Proxy ProxyURL `json:"proxy,omitempty" yaml:"proxy,omitempty" jsonschema:"HTTP proxy to go through, http://[USER:PASSWORD@]HOST:PORT"`
	// HTTP is the version to use, HTTP11 or HTTP2; "": over TLS the server's preference
	// (ALPN), else HTTP/1.1.
	HTTP string `json:"http,omitempty" yaml:"http,omitempty" jsonschema:"version to speak, 1.1 or 2; where none is given the server chooses over TLS, else 1.1"`
}

// resolveMax limits the entries of Resolve.
const resolveMax = 256

// Address returns the destination of connections for a URL.
func (d *Dial) Address(url string) (Address, error) {
	to, _, _, err := ParseTarget(url)
	if err != nil || to.Network != TCP {
		return to, err
	}
	to.All = d.AllAddresses
	if d.Proxy != "" {
		p, err := ParseProxy(d.Proxy)
		to.Via = p.Via
		return to, err
	}
	if d.Unix != "" {
		at, err := socketAddress(d.Unix)
		at.Host, at.TLS = to.Host, to.TLS
		return at, err
	}
	for _, text := range d.Resolve {
		e, err := parseResolve(text)
		if err != nil {
			return to, err
		}
		if e.isFor(to) {
			to.At = e.at
			break
		}
	}
	return to, nil
}

// OverUnix reports whether the connections go to a unix socket.
func (s *Spec) OverUnix() bool {
	if len(s.Targets) == 0 {
		return false
	}
	to, err := s.Address(s.Targets[0].URL)
	return err == nil && to.Network == Unix
}

// For returns the Dial of one of several servers, without entries for the others.
func (d Dial) For(base string) Dial {
	var own []string
	for _, text := range d.Resolve {
		if e, err := parseResolve(text); err != nil || e.isForURL(base) {
			own = append(own, text)
		}
	}
	d.Resolve = own
	return d
}

// resolved is one entry of Resolve.
type resolved struct {
	host string // in the form of Address.Host; * for any
	port uint16
	at   string // in the form of Address.At
}

func (r *resolved) isFor(a Address) bool {
	return a.Network == TCP && a.Port == r.port && (r.host == "*" || r.host == a.Host)
}

func (r *resolved) isForURL(url string) bool {
	a, _, _, err := ParseTarget(url)
	return err == nil && r.isFor(a)
}

// parseResolve parses HOST:PORT:ADDRESS[,ADDRESS]; IPv6 addresses may have brackets.
func parseResolve(text string) (r resolved, err error) {
	wrong := func(what string) (resolved, error) {
		return r, fmt.Errorf("--resolve %s: %s; write HOST:PORT:ADDRESS, as in example.com:443:127.0.0.1", quoteShort(text), what)
	}
	end := strings.IndexByte(text, ':')
	if strings.HasPrefix(text, "[") {
		end = strings.Index(text, "]:") + 1
	}
	if end < 1 {
		return wrong("no port")
	}
	port, list, found := strings.Cut(text[end+1:], ":")
	if !found {
		return wrong("no address")
	}
	r.host = text[:end]
	name := r.host
	if r.host == "*" {
		name = "any"
	}
	to, path, _, err := ParseTarget("http://" + name + ":" + port)
	if err != nil || to.Network != TCP || path != "/" || port == "" {
		return wrong("invalid host or port")
	}
	if r.port = to.Port; r.host != "*" {
		r.host = to.Host
	}
	var ips []string
	for ip := range strings.SplitSeq(list, ",") {
		ip = strings.TrimSpace(ip)
		if inner, found := strings.CutPrefix(ip, "["); found {
			ip = strings.TrimSuffix(inner, "]")
		}
		parsed, err := netip.ParseAddr(ip)
		if err != nil {
			return wrong("invalid address " + quoteShort(ip))
		}
		ips = append(ips, parsed.Unmap().String())
	}
	r.at = strings.Join(ips, ",")
	return r, nil
}

// checkDial validates it without looking at a machine.
func (s *Spec) checkDial() error {
	to, _, _, err := ParseTarget(s.Targets[0].URL)
	if err != nil {
		return err
	}
	switch {
	case s.Unix != "" && to.Network == Unix:
		return errors.New("--unix: the URL is one of a socket already; remove one of them")
	case s.Unix != "" && len(s.Resolve) > 0:
		return errors.New("--unix, --resolve: a socket has no address; remove one of them")
	case s.AllAddresses && (s.Unix != "" || to.Network == Unix):
		return errors.New("--all-addresses: a socket has no address; remove one of them")
	case len(s.Resolve) > resolveMax:
		return fmt.Errorf("--resolve: %d are too many, at most %d", len(s.Resolve), resolveMax)
	}
	if err := checkProxy(&s.Dial, to); err != nil {
		return err
	}
	for _, text := range s.Resolve {
		r, err := parseResolve(text)
		if err == nil && !r.isFor(to) {
			err = fmt.Errorf("--resolve %s: it is not for %s; write the URL's host and port", quoteShort(text), to)
		}
		if err != nil {
			return err
		}
	}
	if to, err = s.Address(s.Targets[0].URL); err != nil {
		return err
	}
	return s.checkSources(to)
}

// checkDial rejects a name that is none of the servers', and a socket behind a proxy.
func (e *Experiment) checkDial() error {
	for i := range e.Servers {
		if e.Servers[i].URL == "" {
			continue
		}
		to, _, _, err := ParseTarget(e.Servers[i].URL)
		if err == nil {
			err = checkProxy(&e.Load.Dial, to)
		}
		if err != nil {
			return err
		}
	}
	for _, text := range e.Load.Resolve {
		r, err := parseResolve(text)
		if err != nil {
			return err
		}
		used := false
		for i := range e.Servers {
			used = used || e.Servers[i].URL != "" && r.isForURL(e.Servers[i].URL)
		}
		if !used {
			return fmt.Errorf("--resolve %s: no server has this host and port; write a URL's", quoteShort(text))
		}
	}
	return nil
}
