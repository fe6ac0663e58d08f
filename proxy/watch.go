package proxy

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"ceiling/internal/ring"
	"ceiling/proxy/config"
)

// Goroutines find out what the loops need to know and cannot wait for. They end with their
// configuration.

// resolveEvery is how often names are looked up again, and resolveLeast the interval at which they are
// after failed connects.
const resolveEvery, resolveLeast = 5 * time.Second, time.Second / 2

// watch starts the health checks and look-ups of s, and ends those of the previous site.
func (p *Proxy) watch(s *site) {
	p.slow()
	ctx, cancel := context.WithCancel(context.Background())
	p.slow = cancel
	checks := map[*upstream]*config.Destination{}
	for i := range s.config.Regions {
		for j := range s.config.Regions[i].Locations {
			loc := &s.config.Regions[i].Locations[j]
			for k := range loc.Destinations {
				checks[s.upstreamFor(&loc.Destinations[k])] = &loc.Destinations[k]
			}
			if loc.Fallback != nil {
				checks[s.upstreamFor(loc.Fallback)] = loc.Fallback
			}
		}
	}
	for u, d := range checks {
		if u != nil && d.Health != nil {
			p.tasks.Go(func() { p.check(ctx, u, d) })
		}
	}
	for _, u := range s.upstreams {
		if named, _ := isName(u.target); named {
			p.tasks.Go(func() { p.resolveAgain(ctx, u) })
		}
	}
}

// upstreamFor finds the upstream of a destination in this site's configuration.
func (s *site) upstreamFor(d *config.Destination) *upstream {
	target, err := config.ParseURI(d.URI)
	if err != nil {
		return nil
	}
	return s.upstreams[upstreamKey(d, target)]
}

// resolveAll looks up the names that no site before had, all at the same time.
func (p *Proxy) resolveAll(s *site) {
	var all sync.WaitGroup
	for _, u := range s.upstreams {
		if u.naming.addresses.Load() == nil {
			all.Go(func() { p.resolve(u) })
		}
	}
	all.Wait()
}

// resolve looks a name up, and reports when it ceases to resolve.
func (p *Proxy) resolve(u *upstream) (moved bool) {
	moved, err := u.resolve(p.lookUp)
	u.note(err, p.fail)
	return moved
}

// resolveAgain looks a name up from time to time, and soon after a connect has failed.
func (p *Proxy) resolveAgain(ctx context.Context, u *upstream) {
	for {
		for _, wait := range []struct {
			time.Duration
			again <-chan struct{}
		}{{resolveLeast, nil}, {resolveEvery - resolveLeast, u.naming.again}} {
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait.Duration):
			case <-wait.again:
			}
		}
		if p.resolve(u) && !p.ended.Load() {
			p.tell(func(l *loop) { l.pool(u).move() })
		}
	}
}

func (p *Proxy) lookUp(host string) ([]string, error) {
	if p.options.LookUp != nil {
		return p.options.LookUp(host)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if config.IsService(host) {
		return lookUpService(ctx, net.DefaultResolver, host)
	}
	return net.DefaultResolver.LookupHost(ctx, host)
}

// lookUpService returns the addresses with their ports of the SRV records (RFC 2782) that come first,
// by priority. Their weights do not count.
func lookUpService(ctx context.Context, from *net.Resolver, name string) (list []string, err error) {
	_, records, err := from.LookupSRV(ctx, "", "", name)
	if err != nil {
		return nil, err
	}
	for _, r := range records {
		if r.Priority != records[0].Priority {
			break
		}
		found, err := from.LookupHost(ctx, r.Target)
		if err != nil {
			return nil, err
		}
		for _, h := range found {
			list = append(list, net.JoinHostPort(h, strconv.Itoa(int(r.Port))))
		}
	}
	return list, nil
}

// isName reports whether an upstream's host must be looked up.
func isName(t config.Target) (bool, string) {
	if t.Scheme == config.Unix || t.Scheme == config.Files {
		return false, ""
	}
	host, _, err := net.SplitHostPort(t.Address)
	if err != nil {
		return false, ""
	}
	_, err = netip.ParseAddr(host)
	return err != nil, host
}

// socketAddresses returns a target's addresses in the kernel's form, IPv4 first: what listens on
// a name such as localhost often has no other.
func socketAddresses(t config.Target, look func(string) ([]string, error)) ([]ring.Sockaddr, error) {
	if t.Scheme == config.Unix {
		a, err := ring.UnixAddr(t.Address)
		return []ring.Sockaddr{a}, err
	}
	host, portText, err := net.SplitHostPort(t.Address)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("port %q", portText)
	}
	names := []string{host}
	if named, _ := isName(t); named {
		if names, err = look(host); err != nil {
			return nil, err
		}
	}
	var found []netip.AddrPort
	for _, n := range names {
		if a, err := netip.ParseAddr(n); err == nil {
			found = append(found, netip.AddrPortFrom(a, uint16(port)))
		} else if a, err := netip.ParseAddrPort(n); err == nil { // of a service
			found = append(found, a)
		}
	}
	slices.SortFunc(found, netip.AddrPort.Compare)
	var list []ring.Sockaddr
	for _, a := range slices.Compact(found) {
		list = append(list, ring.TCPAddr(a))
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s has no address", host)
	}
	return list, nil
}

// check probes an upstream periodically.
func (p *Proxy) check(ctx context.Context, u *upstream, d *config.Destination) {
	h := d.Health
	every, patience := h.Interval.Or(5*time.Second), h.Timeout.Or(2*time.Second)
	rise, fall := cmp.Or(h.Rise, 2), cmp.Or(h.Fall, 2)
	network := "tcp"
	if u.target.Scheme == config.Unix {
		network = "unix"
	}
	scheme := "http://"
	if u.secure() {
		scheme = "https://"
	}
	transport := &http.Transport{
		TLSClientConfig:   checkTLS(u),
		DisableKeepAlives: true, // the check includes connecting
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, dialed(u))
		},
	}
	if u.http2 {
		transport.Protocols = new(http.Protocols)
		transport.Protocols.SetHTTP2(u.secure())
		transport.Protocols.SetUnencryptedHTTP2(!u.secure())
	}
	client := &http.Client{Transport: transport, Timeout: patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	tick := time.NewTicker(every)
	defer tick.Stop()
	good, bad := 0, 0
	for {
		err := probe(ctx, client, scheme+u.target.Host+h.Path, d.SentHost(u.target), h.Status)
		if ctx.Err() != nil {
			return
		}
		u.checked.Add(1)
		u.answers.Store(err == nil)
		if err == nil {
			good, bad = good+1, 0
			if u.ejected() { // otherwise requests that it can answer would be refused
				u.worked()
			}
		} else {
			u.unwell.Add(1)
			good, bad = 0, bad+1
		}
		switch {
		case bad >= fall && u.ill.CompareAndSwap(false, true):
			p.fail(fmt.Sprintf("destination %s is unhealthy: %v", u.key, err))
		case good >= rise && u.ill.CompareAndSwap(true, false):
			p.fail(fmt.Sprintf("destination %s is healthy again", u.key))
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// probe sends one probe.
func probe(ctx context.Context, client *http.Client, url, host string, good []int) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	if host != "" { // else the URI's: there is no client whose host it could be
		req.Host = host
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, io.LimitReader(res.Body, 1<<20)); err != nil {
		return err
	}
	if len(good) == 0 && res.StatusCode >= 200 && res.StatusCode < 400 || slices.Contains(good, res.StatusCode) {
		return nil
	}
	return fmt.Errorf("status %d", res.StatusCode)
}

// checkTLS is what health checks speak: net/http chooses the protocol itself.
func checkTLS(u *upstream) *tls.Config {
	if u.tls.config == nil {
		return nil
	}
	c := u.tls.config.Clone()
	c.NextProtos = nil
	return c
}

// dialed returns the host:port for what connects by itself: of a service, one of those that its records
// name.
func dialed(u *upstream) string {
	host, _, err := net.SplitHostPort(u.target.Address)
	if known := u.naming.addresses.Load(); err == nil && config.IsService(host) && known != nil {
		if at, err := (*known)[rand.IntN(len(*known))].AddrPort(); err == nil {
			return at.String()
		}
	}
	return u.target.Address
}
