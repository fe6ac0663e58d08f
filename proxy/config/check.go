package config

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// checker collects errors.
type checker struct {
	wrong    Errors
	warnings Errors
	apps     map[string]bool // names of the applications
	hosts    []named         // of the locations
	names    []named         // to look up, of the destinations

	outside bool // also check what the file refers to
	workers int
}

func (k *checker) add(at *places, key, format string, args ...any) {
	k.wrong = append(k.wrong, &Error{at.file, at.line(key), fmt.Sprintf(format, args...)})
}

// warn notes what a start survives, but not the requests that it concerns.
func (k *checker) warn(at *places, key, format string, args ...any) {
	k.warnings = append(k.warnings, &Error{at.file, at.line(key), fmt.Sprintf(format, args...)})
}

// whole checks everything outside of regions.
func (k *checker) whole(c *Config, at *places) {
	if len(c.Listen) == 0 && len(c.TLS.Listen) == 0 {
		c.Listen = []string{"127.0.0.1:8080"}
	}
	for i, a := range c.Listen {
		if err := CheckListener(a); err != nil {
			k.add(at, fmt.Sprintf("listen.%d", i), "listen: %v", err)
		}
	}
	if c.Admin != "" {
		key := "admin"
		for _, other := range []string{"hypertext.sideload_ports", "sideload.ports"} {
			if _, ok := at.lines[other]; ok && at.lines[key] == 0 {
				key = other
			}
		}
		if err := CheckAddress(c.Admin); err != nil {
			k.add(at, key, "admin: %v", err)
		} else if err := c.CheckAdmin(); err != nil {
			k.add(at, key, "%v", err)
		}
	}
	for i, t := range c.Trust {
		if t == TrustUnix {
			continue
		}
		if _, err := ParseNetwork(t); err != nil {
			k.add(at, fmt.Sprintf("trust.%d", i), "trust: %v", err)
		}
	}
	if c.Workers < 0 {
		k.add(at, "workers", "workers: %d; 0 is one per CPU", c.Workers)
	}
	if c.Via != "" && !token(c.Via) {
		k.add(at, "via", "via: invalid pseudonym %q; use one such as edge-1", c.Via)
	}
	if c.Limits.HeaderBytes == 0 {
		c.Limits.HeaderBytes = 16 << 10
	}
	if n := c.Limits.HeaderBytes; n < 256 || n > 64<<10 {
		k.add(at, "limits.header_bytes", "header_bytes: %d; 256 to 65536 are possible", n)
	}
	if c.Limits.HeaderLines == 0 {
		c.Limits.HeaderLines = 100
	}
	if c.Limits.BodyBytes < 0 || c.Limits.Connections < 0 || c.Limits.ConnectionsPerClient < 0 || c.Limits.RequestsPerClient < 0 ||
		c.Limits.HeaderLines < 0 {
		k.add(at, "limits", "limits: a negative number; 0 is the default")
	}
	if c.Limits.IPv6Prefix == 0 {
		c.Limits.IPv6Prefix = 64
	}
	if n := c.Limits.IPv6Prefix; n < 1 || n > 128 {
		k.add(at, "limits.ipv6_prefix", "ipv6_prefix: %d; 1 to 128 bits are possible", n)
	}
	k.tls(c, at)
	k.publish(&c.Publish, at)
	k.log(c, at)
	k.unserved(c, at)
}

func (k *checker) publish(p *Publish, at *places) {
	if p.UploadBytes < 0 || p.UnpackedBytes < 0 {
		k.add(at, "publish", "publish: a negative number")
	}
	if p.UploadBytes == 0 {
		p.UploadBytes = 256 << 20
	}
	if p.UnpackedBytes == 0 {
		p.UnpackedBytes = 1 << 30
	}
	seen := map[string]bool{}
	for i := range p.Sites {
		s := &p.Sites[i]
		s.Directory = strings.TrimRight(s.Directory, "/")
		if s.ID == "" || seen[s.ID] || s.Directory == "" || s.Keep < 0 {
			k.add(at, fmt.Sprintf("publish.sites.%d", i), "publish.sites: %q: it needs its own id, and a directory", s.ID)
		}
		seen[s.ID] = true
		if s.Keep == 0 {
			s.Keep = DefaultKeep
		}
	}
}

func (k *checker) log(c *Config, at *places) {
	if c.Log.Access == "" {
		c.Log.Access = "off"
	}
	if c.Log.Format == "" {
		c.Log.Format = "combined"
	}
	if !slices.Contains([]string{"combined", "json"}, c.Log.Format) {
		k.add(at, "log.format", "format: %q; combined and json are known", c.Log.Format)
	}
	if c.Log.Sample == 0 {
		c.Log.Sample = 1
	}
	if c.Log.Sample < 0 || c.Log.Sample > 1 {
		k.add(at, "log.sample", "sample: %v; a share from 0 to 1 is needed", c.Log.Sample)
	}
	for i, id := range c.Log.Skip {
		if !slices.ContainsFunc(c.Regions, func(r Region) bool {
			return slices.ContainsFunc(r.Locations, func(l Location) bool { return l.ID == id && id != "" })
		}) {
			k.add(at, fmt.Sprintf("log.skip.%d", i), "log: skip: no location has the id %q", id)
		}
	}
	for name, field := range c.Log.Fields {
		if !token(field) || !token(name) {
			k.add(at, "log.fields", "log: fields: %s = %q: a name and a request's field are needed, as in tenant = \"X-Tenant\"", name, field)
		}
	}
	if len(c.Log.Fields) > 0 && c.Log.Format != "json" {
		k.add(at, "log.fields", "log: fields are the JSON log's: set format = \"json\"")
	}
	if c.Log.RequestID != "" && !token(c.Log.RequestID) {
		k.add(at, "log.request_id", "request_id: invalid field name %q; use one such as X-Request-Id", c.Log.RequestID)
	}
	if c.Log.Traces < 0 || c.Log.Traces > mostTraces {
		k.add(at, "log.traces", "traces: %d; 0 to %d are possible", c.Log.Traces, mostTraces)
	}
}

// mostTraces per worker take a few megabytes.
const mostTraces = 4096

func (k *checker) region(r *Region, at *places, key string) {
	if r.Disabled { // nothing will use what it needs
		defer func(was bool) { k.outside = was }(k.outside)
		k.outside = false
	}
	k.errorPages(r.ErrorPages, at, key)
	for i := range r.Locations {
		k.location(&r.Locations[i], at, fmt.Sprintf("%slocations.%d", key, i))
	}
	for i := range r.Applications {
		a := &r.Applications[i]
		if a.Exe != "" && len(a.Command) == 0 {
			a.Command = []string{a.Exe}
		}
		if len(a.Command) == 0 {
			k.add(at, fmt.Sprintf("%sapplications.%d", key, i), "application %q has no command", a.ID)
		}
		if k.apps == nil {
			k.apps = map[string]bool{}
		}
		if a.ID == "" || k.apps[a.ID] {
			k.add(at, fmt.Sprintf("%sapplications.%d", key, i), "application %q: it needs its own id", a.ID)
		}
		k.apps[a.ID] = true
		if a.Ready != "" && !strings.HasPrefix(a.Ready, "http://") && !strings.HasPrefix(a.Ready, "https://") {
			if _, _, err := net.SplitHostPort(a.Ready); err != nil {
				k.add(at, fmt.Sprintf("%sapplications.%d.ready", key, i), "ready: invalid value %q; use an http:// URI or host:port", a.Ready)
			}
		}
	}
}

func (k *checker) location(l *Location, at *places, key string) {
	l.Hosts, l.Host = append(l.Hosts, l.Host...), nil
	l.Paths, l.Path = append(l.Paths, l.Path...), nil
	l.At = Place{at.file, at.line(key)}
	for i, h := range l.Hosts {
		l.Hosts[i] = asciiHost(h)
		if err := CheckHost(l.Hosts[i]); err != nil {
			k.add(at, fmt.Sprintf("%s.hosts.%d", key, i), "hosts: %v", err)
		} else if k.outside {
			k.hosts = append(k.hosts, named{h, at, fmt.Sprintf("%s.hosts.%d", key, i)})
		}
	}
	for i, p := range l.Paths {
		if err := checkPath(p); err != nil {
			k.add(at, fmt.Sprintf("%s.paths.%d", key, i), "paths: %v", err)
		}
	}
	for i, m := range l.Methods {
		if err := checkMethod(m); err != nil {
			k.add(at, fmt.Sprintf("%s.methods.%d", key, i), "methods: %v", err)
		}
	}
	for name := range l.Headers {
		if !token(name) {
			k.add(at, key+".headers", "headers: invalid field name %q", name)
		}
	}
	k.actions(l, at, key)
	k.limits(l, at, key)
	if l.Access != nil {
		k.access(l.Access, at, key+".access")
	}
	k.helmet(l.Helmet, at, key+".helmet")
	k.edits(&l.RequestHeaders, at, key+".request_headers")
	k.edits(&l.ResponseHeaders, at, key+".response_headers")
}

// passes checks that where files pass requests on there is somebody to take them.
func (k *checker) passes(l *Location, i int, at *places, key string) {
	target, err := ParseURI(l.Destinations[i].URI)
	if err != nil || target.Options.Get(Missing) == "" {
		return
	}
	switch {
	case i > 0:
		k.add(at, fmt.Sprintf("%s.destinations.%d", key, i), "uri: files with missing=next come first in a location")
	case len(l.Destinations) == 1 && l.Fallback == nil:
		k.add(at, fmt.Sprintf("%s.destinations.%d", key, i), "uri: missing=next needs another destination, or a fallback, that answers then")
	}
}

// Sticky is the Balance that a cookie decides.
const Sticky = "sticky"

// actions checks what is done with a location's requests.
func (k *checker) actions(l *Location, at *places, key string) {
	switch {
	case len(l.Destinations) == 0 && l.Redirect == nil && l.Respond == nil:
		k.add(at, key, "location %q has no destination, redirect or respond", l.ID)
	case l.Redirect != nil && l.Respond != nil:
		k.add(at, key, "location %q has both redirect and respond", l.ID)
	case (l.Redirect != nil || l.Respond != nil) && (len(l.Destinations) > 0 || l.Fallback != nil):
		k.add(at, key, "location %q has destinations that get no request: its redirect or respond answers them all; remove one of the two", l.ID)
	}
	if l.Respond != nil {
		k.respond(l.Respond, at, key+".respond")
	}
	if n := len(l.Destinations); n > 63 {
		k.add(at, key, "location %q: %d destinations; 63 are possible", l.ID, n)
	}
	for i := range l.Destinations {
		k.destination(&l.Destinations[i], at, fmt.Sprintf("%s.destinations.%d", key, i))
		k.below(l, &l.Destinations[i], at, fmt.Sprintf("%s.destinations.%d", key, i))
		k.passes(l, i, at, key)
	}
	if len(l.Destinations) > 0 && !slices.ContainsFunc(l.Destinations, func(d Destination) bool { return *d.Weight != 0 }) {
		k.add(at, key, "location %q: no request reaches a destination of weight 0; give one of them another weight", l.ID)
	}
	if l.Fallback != nil {
		k.destination(l.Fallback, at, key+".fallback")
	}
	if r := l.Redirect; r != nil {
		if r.Status == 0 {
			r.Status = 308
		}
		if !slices.Contains([]int{301, 302, 303, 307, 308}, r.Status) {
			k.add(at, key+".redirect", "redirect: status %d; 301, 302, 303, 307 and 308 redirect", r.Status)
		}
		if r.To == "" || !fieldText(r.To) {
			k.add(at, key+".redirect", "redirect: to %q", r.To)
		}
		if left := strings.NewReplacer("{host}", "", "{path}", "", "{query}", "").Replace(r.To); strings.ContainsAny(left, "{}") {
			k.add(at, key+".redirect", "redirect: to %q: {host}, {path} and {query} are known", r.To)
		}
	}
	if l.Balance == "" {
		l.Balance = "round_robin"
	}
	if !slices.Contains([]string{"round_robin", "least_connections", "two_choices", "hash", Sticky}, l.Balance) {
		k.add(at, key+".balance", "balance: %q; round_robin, least_connections, two_choices, hash and sticky are known", l.Balance)
	}
	switch {
	case l.Key == "" && l.Balance == Sticky:
		l.Key = "cookie:destination"
	case l.Key == "":
		l.Key = "client"
	}
	switch {
	case !validKey(l.Key):
		k.add(at, key+".key", "key: %q; client, path, header:NAME and cookie:NAME are known", l.Key)
	case l.Balance == Sticky && !strings.HasPrefix(l.Key, "cookie:"):
		k.add(at, key+".key", "key: %q; a sticky balance needs cookie:NAME", l.Key)
	}
}

func (k *checker) limits(l *Location, at *places, key string) {
	if r := l.Rate; r != nil {
		if r.Requests < 1 || r.Per < 0 || r.Burst < 0 {
			k.add(at, key+".rate", "rate: requests and per must be above 0, burst not below")
		}
		if r.Key == "" {
			r.Key = "client"
		}
		if !validKey(r.Key) {
			k.add(at, key+".rate.key", "rate: key %q; client, path, header:NAME and cookie:NAME are known", r.Key)
		}
	}
	if l.Retry == nil {
		l.Retry = new(Retry)
	}
	if l.Retry.Attempts == nil {
		l.Retry.Attempts = new(2)
	}
	if l.Retry.Budget == 0 {
		l.Retry.Budget = 0.2
	}
	if *l.Retry.Attempts < 0 || l.Retry.Budget < 0 {
		k.add(at, key+".retry", "retry: a negative number")
	}
}

func (k *checker) destination(d *Destination, at *places, key string) {
	target, err := ParseURI(d.URI)
	if err != nil {
		k.add(at, key+".uri", "uri: %v", err)
	} else {
		k.there(d, target, at, key)
		if d.Timeout == 0 {
			d.Timeout = target.Timeout
		}
	}
	k.helmet(d.Helmet, at, key+".helmet")
	k.secured(d, err == nil && target.Scheme == HTTPS, at, key)
	switch {
	case d.HTTP != "" && d.HTTP != "1.1" && d.HTTP != HTTP2:
		k.add(at, key+".http", "http: %q; \"1.1\" and \"2\" are known", d.HTTP)
	case d.HTTP != "" && err == nil && target.Scheme == Files:
		k.add(at, key+".http", "http: files have none")
	}
	if d.Weight == nil {
		d.Weight = new(1)
	}
	if *d.Weight < 0 || d.MaxConnections < 0 || d.Queue < 0 || d.IdleConnections < 0 || d.Timeout < 0 {
		k.add(at, key, "destination %q: a negative number", d.ID)
	}
	if d.Host != "" && d.Host != "upstream" && d.Host != "client" && CheckHost(d.Host) != nil {
		k.add(at, key+".host", "host: invalid host name %q", d.Host)
	}
	if d.Health != nil && d.Health.Path == "" {
		d.Health.Path = "/"
	}
	if d.Health != nil && (d.Health.Path[0] != '/' || !fieldText(d.Health.Path) || strings.Contains(d.Health.Path, " ")) {
		k.add(at, key+".health.path", "health: path %q", d.Health.Path)
	}
	if d.Health != nil && err == nil && target.Scheme == Files {
		k.add(at, key+".health", "health: files have none")
	}
	for i := range d.Transformers {
		k.transformer(&d.Transformers[i], at, fmt.Sprintf("%s.transformers.%d", key, i))
	}
}

// secured checks what concerns TLS to a destination.
func (k *checker) secured(d *Destination, secure bool, at *places, key string) {
	for _, one := range []struct {
		key   string
		given bool
	}{{"ca", d.CA != ""}, {"server_name", d.ServerName != ""}, {"certificate", d.Certificate != nil}, {"insecure", d.Insecure}} {
		if one.given && !secure {
			k.add(at, key+"."+one.key, "%s has no use: the destination is not https://", one.key)
			return
		}
	}
	if host, _, _ := strings.Cut(strings.TrimPrefix(d.URI, "https://"), "/"); secure && IsService(host) && d.ServerName == "" {
		k.add(at, key+".uri", "uri: %s has SRV records: the certificate's name is needed in server_name", host)
	}
	if d.Insecure && d.CA != "" {
		k.add(at, key+".insecure", "insecure: the certificate is not checked, so ca has no use")
	}
	if d.ServerName != "" && (CheckHost(d.ServerName) != nil || strings.ContainsAny(d.ServerName, "*:")) {
		k.add(at, key+".server_name", "server_name: invalid name %q", d.ServerName)
	}
	if c := d.Certificate; c != nil {
		if _, err := tls.LoadX509KeyPair(c.PEM, c.Key); err != nil {
			k.add(at, key+".certificate", "certificate: %v", err)
		}
	}
	if d.CA != "" {
		k.authorities(d, at, key+".ca")
	}
}

// authorities reads the CAs of a destination.
func (k *checker) authorities(d *Destination, at *places, key string) {
	var err error
	if _, d.Roots, err = ReadCAs(d.CA); err != nil {
		k.add(at, key, "ca: %v", err)
	}
}

func (k *checker) transformer(t *Transformer, at *places, key string) {
	switch t.Type {
	case "replacePath":
		if t.Options.Pattern == "" {
			k.add(at, key, "replacePath: no pattern")
		}
		if _, err := regexp.Compile(t.Options.Pattern); t.Options.Complex && err != nil {
			k.add(at, key, "replacePath: %v", err)
		}
	case "compressResponse":
	default:
		k.add(at, key+".type", "transformer %q; replacePath and compressResponse are known", t.Type)
	}
}

// helmet checks its fields' values.
func (k *checker) helmet(h *Helmet, at *places, key string) {
	if h == nil {
		return
	}
	for v, i := reflect.ValueOf(*h), 0; i < v.NumField(); i++ {
		if name := v.Type().Field(i).Tag.Get("toml"); v.Field(i).Kind() == reflect.String && !fieldText(v.Field(i).String()) {
			k.add(at, key+"."+name, "helmet: %s: the value has a line end or another control byte; write it in one line", name)
		}
	}
}

func (k *checker) edits(h *Headers, at *places, key string) {
	protected := []string{"content-length", "transfer-encoding", "connection", "host", "trailer", "te", "upgrade", "keep-alive", "cdn-loop"}
	name := func(n string) {
		if !token(n) || slices.Contains(protected, strings.ToLower(n)) {
			k.add(at, key, "headers: field %q cannot be edited", n)
		}
	}
	for _, n := range h.Remove {
		name(n)
	}
	for _, m := range []map[string]string{h.Set, h.Add} {
		for n, v := range m {
			name(n)
			if !fieldText(v) {
				k.add(at, key, "headers: %s: the value has a control byte", n)
			}
		}
	}
}

// TrustUnix in Trust means the clients of unix sockets.
const TrustUnix = "unix"

// Listeners that are no host:port: a unix socket's path follows, or the name of a socket that systemd
// has opened (sd_listen_fds(3)).
const UnixListener, SystemdListener = "unix:", "systemd:"

// CheckListener checks what can be listened on.
func CheckListener(a string) error {
	if path, is := strings.CutPrefix(a, UnixListener); is {
		if path == "" || len(path) > 107 || strings.ContainsAny(path, "\x00?") {
			return fmt.Errorf("%q: a socket's path has 1 to 107 bytes", a)
		}
		return nil
	}
	if name, is := strings.CutPrefix(a, SystemdListener); is {
		if name == "" {
			return fmt.Errorf("%q: a name is needed, as in the unit's FileDescriptorName=, or the socket's number from 0", a)
		}
		return nil
	}
	return CheckAddress(a)
}

// CheckAddress checks "host:port" with a literal address or no host.
func CheckAddress(a string) error {
	host, port, err := net.SplitHostPort(a)
	if err != nil {
		return fmt.Errorf("invalid host:port %q", a)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return fmt.Errorf("%q: the port must be 0–65535", a)
	}
	if host == "" || host == "localhost" {
		return nil
	}
	if _, err := netip.ParseAddr(host); err != nil {
		return fmt.Errorf("%q: an IP address is needed before the port", a)
	}
	return nil
}

// CheckAdmin rejects an admin address that other machines can reach without a credential.
func (c *Config) CheckAdmin() error {
	if c.Admin == "" || c.Security.Credential != "" || !c.AdminBeyond() {
		return nil
	}
	return fmt.Errorf("admin: other machines can reach %s and reload, stop applications and read traces without a credential; "+
		`set credential = "…" in [security], or use 127.0.0.1`, c.Admin)
}

// AdminBeyond reports whether other machines can reach the admin address.
func (c *Config) AdminBeyond() bool {
	host, _, _ := net.SplitHostPort(c.Admin) // already checked by CheckAddress
	if host == "localhost" {
		return false
	}
	at, err := netip.ParseAddr(host)
	return err != nil || !at.IsLoopback()
}

// CheckHost checks a name, *.name, or *, with or without a port.
func CheckHost(h string) error {
	name := h
	if i := strings.LastIndexByte(h, ':'); i >= 0 && !strings.HasSuffix(h, "]") {
		if n, err := strconv.Atoi(h[i+1:]); err != nil || n < 1 || n > 65535 {
			return fmt.Errorf("%q: the port must be 1–65535", h)
		}
		name = h[:i]
	}
	if name == "*" {
		return nil
	}
	if front, is := strings.CutSuffix(name, ".*"); is && !strings.HasPrefix(name, "*") {
		name = front
	}
	name = strings.TrimPrefix(name, "*.")
	notASCII := strings.ContainsFunc(name, func(c rune) bool { return c > 0x7f })
	if u, err := url.Parse("http://" + name); notASCII || err != nil || u.Host != name || name == "" || strings.ContainsAny(name, "*@ ") {
		return fmt.Errorf("invalid host name %q; use names, *.suffix, prefix.* or *", h)
	}
	return nil
}

// ParseNetwork parses an address or a prefix; localhost means both loopbacks.
func ParseNetwork(s string) ([]netip.Prefix, error) {
	if s == "localhost" {
		return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}, nil
	}
	if p, err := netip.ParsePrefix(s); err == nil {
		return []netip.Prefix{p.Masked()}, nil
	}
	a, err := netip.ParseAddr(s)
	if err != nil {
		return nil, fmt.Errorf("invalid address or network %q; use one such as 10.0.0.0/8", s)
	}
	return []netip.Prefix{netip.PrefixFrom(a, a.BitLen())}, nil
}

func validKey(key string) bool {
	kind, name, found := strings.Cut(key, ":")
	switch kind {
	case "client", "path":
		return !found
	case "header", "cookie":
		return found && token(name)
	}
	return false
}

func token(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		return c <= ' ' || c >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, c)
	})
}
