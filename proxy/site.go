package proxy

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"ceiling/internal/secret"
	"ceiling/proxy/compress"
	"ceiling/proxy/config"
	"ceiling/proxy/files"
	"ceiling/proxy/route"
	"ceiling/proxy/secure"
)

// site is a prepared configuration. It is immutable, and the loops share it.
type site struct {
	config       *config.Config
	certificates *secure.Certificates // nil without TLS
	table        *route.Table
	locations    []*location
	trust        []netip.Prefix
	trustUnix    bool // trust the clients of unix sockets
	needsHeaders bool // a rule uses header fields
	timeouts     struct{ header, keepAlive, idle int64 }
	via          []byte // a Via line, or nothing
	upstreams    map[string]*upstream
	fileSites    []*files.Site
	logFormat    logFormat
	logFields    []logField
	rate         *limiter // per client address, over all locations; nil for none
	traces       int      // requests that each loop keeps
	securePort   string   // plain requests are redirected to it; "" for no redirect
	marks        *marking // nil for none
	pages        errorPages
	ipv6Prefix   int    // bits of an address that are one client
	clientField  string // has the subject of a client's certificate; "" for none
}

type logFormat uint8

const (
	logCombined logFormat = iota
	logJSON
)

// logField is a request's field in the JSON log, in lower case.
type logField struct{ name, field string }

func keyOf(text string) requestKey {
	kind, name, _ := strings.Cut(text, ":")
	switch kind {
	case "path":
		return requestKey{kind: keyPath}
	case "header":
		return requestKey{keyHeader, strings.ToLower(name)}
	case "cookie":
		return requestKey{keyCookie, name}
	}
	return requestKey{kind: keyClient}
}

// build prepares a configuration. It reuses the upstreams of old.
func (p *Proxy) build(c *config.Config, old *site) (*site, error) {
	s := &site{config: c, upstreams: map[string]*upstream{}}
	for _, t := range c.Trust {
		if t == config.TrustUnix {
			s.trustUnix = true
			continue
		}
		list, err := config.ParseNetwork(t)
		if err != nil {
			return nil, err
		}
		s.trust = append(s.trust, list...)
	}
	s.timeouts.header = int64(c.Timeouts.Header.Or(10 * time.Second))
	s.timeouts.keepAlive = int64(c.Timeouts.KeepAlive.Or(75 * time.Second))
	s.timeouts.idle = int64(c.Timeouts.Idle.Or(60 * time.Second))
	if n := c.Limits.RequestsPerClient; n > 0 {
		s.rate = newLimiter(n, time.Second, n-1)
	}
	s.traces = c.Log.Traces
	if c.Log.RequestID != "" || c.Log.Traceparent {
		s.marks = &marking{c.Log.RequestID, c.Log.Traceparent}
	}
	s.pages, s.ipv6Prefix, s.clientField = errorPagesOf(nil, c.ErrorPages), c.Limits.IPv6Prefix, c.TLS.ClientField
	if c.Via != "" {
		s.via = []byte("Via: 1.1 " + c.Via + "\r\n")
	}
	if c.TLS.Redirect {
		_, s.securePort, _ = net.SplitHostPort(c.TLS.Listen[0]) // checked when the configuration was read
	}
	if c.Log.Format == "json" {
		s.logFormat = logJSON
		for _, name := range slices.Sorted(maps.Keys(c.Log.Fields)) {
			s.logFields = append(s.logFields, logField{name, strings.ToLower(c.Log.Fields[name])})
		}
	}
	if len(c.TLS.Listen) > 0 {
		var err error
		if s.certificates, err = secure.Load(&c.TLS, p.fail); err != nil {
			return nil, err
		}
	}
	regions := c.Regions
	if c.TLS.ACME != nil && p.options.Challenges != "" {
		regions = append(slices.Clone(regions), secure.Region(p.options.Challenges))
	}
	var rules []route.Rule
	for i := range regions {
		pages := errorPagesOf(regions[i].ErrorPages, c.ErrorPages)
		for j := range regions[i].Locations {
			l := &regions[i].Locations[j]
			rules = append(rules, ruleOf(l))
			s.needsHeaders = s.needsHeaders || len(l.Headers) > 0
			loc, err := p.locationOf(s, old, l)
			if err != nil {
				return nil, err
			}
			loc.pages = pages
			s.locations = append(s.locations, loc)
		}
	}
	table, err := route.New(rules)
	s.table = table
	p.resolveAll(s)
	return s, err
}

// Hidden lists, by line, what other locations hide: a location, or a host and a path of one, that gets
// no request.
func Hidden(c *config.Config) (list []string) {
	var all []*config.Location
	var rules []route.Rule
	for i := range c.Regions {
		for j := range c.Regions[i].Locations {
			all = append(all, &c.Regions[i].Locations[j])
			rules = append(rules, ruleOf(all[len(all)-1]))
		}
	}
	found, err := route.FindHidden(rules)
	if err != nil { // an invalid pattern, which a start reports
		return nil
	}
	said := map[int]bool{}
	for _, h := range found {
		l, by := all[h.Rule], all[h.By]
		switch {
		case h.Whole && said[h.Rule]:
		case h.Whole:
			said[h.Rule] = true
			list = append(list, fmt.Sprintf("%s: location %q gets no request: location %q (%s) takes them all; "+
				"remove one, or give this one a longer path, a host, or a priority", l.At, l.ID, by.ID, by.At))
		default:
			list = append(list, fmt.Sprintf("%s: location %q gets no request for %s: location %q (%s) takes them all; "+
				"remove it from one, or give this one a priority", l.At, l.ID, h.Host+h.Path.Text, by.ID, by.At))
		}
	}
	return list
}

func ruleOf(l *config.Location) route.Rule {
	r := route.Rule{Hosts: l.Hosts, Methods: l.Methods, Queries: l.Queries, Headers: l.Headers, Priority: l.Priority}
	for _, p := range l.Paths {
		kind, text := config.PathKind(p)
		r.Paths = append(r.Paths, route.Path{Kind: [...]route.PathKind{route.Prefix, route.Exact, route.Regex}[kind], Text: text})
	}
	return r
}

// locationOf prepares one location.
func (p *Proxy) locationOf(s, old *site, l *config.Location) (*location, error) {
	if len(l.Destinations) > 63 {
		return nil, fmt.Errorf("location %s: %d destinations; 63 are possible", l.ID, len(l.Destinations))
	}
	loc := &location{id: l.ID, redirect: l.Redirect, retries: *l.Retry.Attempts, bodyBytes: l.BodyBytes}
	if loc.bodyBytes == 0 {
		loc.bodyBytes = s.config.Limits.BodyBytes
	}
	loc.compress, loc.unlogged = l.Compress, l.ID != "" && slices.Contains(s.config.Log.Skip, l.ID)
	loc.allow(&l.Timeouts, &s.config.Timeouts)
	loc.request, loc.open = requestEditsOf(&l.RequestHeaders, s.ownFields(l)), l.ID == config.OpenLocation
	var err error
	if loc.entrance, err = entranceOf(l.Access); err != nil {
		return nil, err
	}
	if l.Respond != nil {
		loc.fixed = fixedOf(l.Respond)
	}
	loc.response = responseEditsOf(l, nil, false)
	switch l.Balance {
	case "least_connections":
		loc.balance = route.LeastConnections
	case "two_choices":
		loc.balance = route.TwoChoices
	case "hash":
		loc.balance, loc.balanceKey = route.Hash, keyOf(l.Key)
	case config.Sticky:
		loc.sticky, loc.balanceKey = true, requestKey{keyDestination, strings.TrimPrefix(l.Key, "cookie:")}
		loc.balance = route.Sticky
	}
	loc.turns = make([]turnOf, len(p.loops))
	for i := range loc.turns {
		loc.turns[i] = turnOf{tokens: maxTokens, budget: l.Retry.Budget, chooser: route.Chooser{Balance: loc.balance}}
	}
	if r := l.Rate; r != nil {
		loc.rate, loc.rateKey = newLimiter(r.Requests, r.Per.Or(time.Second), r.Burst), keyOf(r.Key)
	}
	for i := range l.Destinations {
		d, err := p.destination(s, old, l, &l.Destinations[i], loc)
		if err != nil {
			return nil, err
		}
		loc.destinations = append(loc.destinations, d)
	}
	if len(loc.destinations) > 0 {
		loc.response = loc.destinations[0].response
	}
	if len(loc.destinations) == 1 && l.Fallback == nil {
		loc.files = loc.destinations[0].files
	}
	loc.tryFiles = loc.files == nil && len(loc.destinations) > 0 && loc.destinations[0].files.Passes()
	if l.Fallback != nil {
		d, err := p.destination(s, old, l, l.Fallback, loc)
		if err != nil {
			return nil, err
		}
		loc.fallback = d
	}
	return loc, nil
}

// ownFields are the fields of requests that the proxy says itself.
func (s *site) ownFields(l *config.Location) (names []string) {
	if s.marks != nil {
		names = s.marks.fields()
	}
	if s.clientField != "" {
		names = append(names, s.clientField)
	}
	if l.Access != nil && l.Access.ForwardAuth != nil {
		for _, c := range copiedOf(l.Access.ForwardAuth) {
			names = append(names, c.From, c.To)
		}
	}
	return names
}

func fixedOf(r *config.Respond) *fixed {
	f := &fixed{status: r.Status, body: []byte(r.Body)}
	if kind := cmp.Or(r.Type, fileType(r.File)); r.Status != 204 && r.Status != 304 {
		f.lines = appendField(nil, "Content-Type", kind)
	}
	return f
}

func fileType(name string) string {
	if name == "" {
		return "text/plain; charset=utf-8"
	}
	return files.TypeOf(name)
}

// allow uses the location's timeouts, else the file's, else the defaults.
func (loc *location) allow(own, whole *config.Timeouts) {
	pick := func(a, b config.Duration, otherwise time.Duration) int64 {
		if a != 0 {
			return int64(a.Or(otherwise))
		}
		return int64(b.Or(otherwise))
	}
	loc.within.connect = pick(own.Connect, whole.Connect, 2*time.Second)
	loc.within.respond = pick(own.Response, whole.Response, time.Minute)
	loc.within.idle = pick(own.Idle, whole.Idle, time.Minute)
	loc.within.total = pick(own.Total, whole.Total, 0)
	loc.within.queue = pick(own.Queue, whole.Queue, 5*time.Second)
	loc.within.tunnel = pick(own.Tunnel, whole.Tunnel, time.Hour)
}

// destination prepares one destination.
func (p *Proxy) destination(s, old *site, l *config.Location, d *config.Destination, loc *location) (*destination, error) {
	target, err := config.ParseURI(d.URI)
	if err != nil {
		return nil, err
	}
	dest := &destination{id: d.ID, name: cmp.Or(d.ID, secret.Plain().URL(d.URI)), weight: *d.Weight, base: target.Base,
		seed: route.HashOf([]byte(d.URI + " " + d.ID)), host: d.SentHost(target), collects: d.BufferRequests}
	if d.Timeout > 0 {
		loc.within.respond = int64(d.Timeout) * 1e6
	}
	dest.level = compress.LevelOf(loc.compress, d.Transformers)
	dest.response = responseEditsOf(l, d.Helmet, dest.level != compress.None || target.Scheme == config.Files)
	if dest.response.edits("content-encoding") { // what is compressed here would not say so
		dest.level = compress.None
	}
	for _, t := range d.Transformers {
		if t.Type != "replacePath" {
			continue
		}
		r := replacement{old: t.Options.Pattern, new: t.Options.Value}
		if t.Options.Complex {
			if r.re, err = regexp.Compile(t.Options.Pattern); err != nil {
				return nil, err
			}
			r.new = t.Options.Repl
		}
		dest.replace = append(dest.replace, r)
	}
	if target.Scheme == config.Files {
		if dest.files, err = files.NewSite(target, dest.level, p.fail); err == nil {
			s.fileSites = append(s.fileSites, dest.files)
		}
		return dest, err
	}
	dest.upstream, err = p.upstreamOf(s, old, d, target)
	return dest, err
}

// upstreamOf finds the upstream that another destination, or the old site, has under the same
// rules, or creates it.
func (p *Proxy) upstreamOf(s, old *site, d *config.Destination, target config.Target) (*upstream, error) {
	k := upstreamKey(d, target)
	if u := s.upstreams[k]; u != nil {
		return u, nil
	}
	if old != nil {
		if u := old.upstreams[k]; u != nil {
			s.upstreams[k] = u
			u.idle.Store(int64(s.config.Timeouts.UpstreamIdle.Or(4 * time.Second)))
			return u, nil
		}
	}
	u := &upstream{id: p.nextID(), key: target.Scheme + "://" + target.Address, target: target,
		http2: d.HTTP == config.HTTP2}
	u.naming.again = make(chan struct{}, 1)
	var err error
	if u.tls.config, err = tlsOf(d, target, p.options.Roots); err != nil {
		return nil, fmt.Errorf("destination %s: %w", d.URI, err)
	}
	if d.MaxConnections > 0 {
		if d.MaxConnections < p.processes() {
			return nil, fmt.Errorf("destination %s: max_connections %d for %d workers; each needs one", d.URI, d.MaxConnections, p.processes())
		}
		u.limit.Store(int64(d.MaxConnections / p.processes()))
	}
	u.queue.Store(int64(cmp.Or(d.Queue, 100)))
	u.maxIdle.Store(int64(cmp.Or(d.IdleConnections, 64)))
	u.idle.Store(int64(s.config.Timeouts.UpstreamIdle.Or(4 * time.Second)))
	u.eject.failures = int32(cmp.Or(d.Eject.Failures, 5))
	u.eject.first, u.eject.most = d.Eject.For.Or(5*time.Second), d.Eject.Most.Or(time.Minute)
	s.upstreams[k] = u
	p.supervise(u)
	if named, _ := isName(target); named {
		return u, nil // see resolveAll
	}
	_, err = u.resolve(nil)
	return u, err
}

// upstreamKey identifies an upstream by its address and the rules for it.
func upstreamKey(d *config.Destination, target config.Target) string {
	k := fmt.Sprintf("%s:%s max=%d queue=%d idle=%d eject=%v", target.Scheme, target.Address, d.MaxConnections, d.Queue, d.IdleConnections,
		d.Eject)
	if d.HTTP == config.HTTP2 {
		k += " http=2"
	}
	if d.CA != "" {
		k += fmt.Sprintf(" ca=%x", sha256.Sum256(d.Roots)) // another CA file makes another upstream
	}
	if c := d.Certificate; c != nil {
		k += fmt.Sprintf(" certificate=%s,%s", c.PEM, c.Key)
	}
	if d.ServerName != "" || d.Insecure {
		k += fmt.Sprintf(" name=%s insecure=%t", d.ServerName, d.Insecure)
	}
	if d.Health != nil {
		k += fmt.Sprintf(" health=%+v host=%s", *d.Health, d.Host) // the checks send it
	}
	return k
}

// trusts reports whether an address is a trusted proxy's.
func (s *site) trusts(a netip.Addr) bool {
	return slices.ContainsFunc(s.trust, func(p netip.Prefix) bool { return p.Contains(a) })
}

// clientOf returns the network that is one client to the limits: a customer has a whole network of
// IPv6, and may change the address with every request.
func (s *site) clientOf(a netip.Addr) netip.Addr {
	if !a.Is6() || a.Is4In6() {
		return a
	}
	p, err := a.Prefix(s.ipv6Prefix)
	if err != nil { // not after the check of the configuration
		return a
	}
	return p.Addr()
}
