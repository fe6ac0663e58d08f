package convert

import (
	"fmt"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// instead says what to write for lines that are never translated.
var instead = map[string]string{
	"expires":               "write ?maxAge=SECONDS in the files:// URI, or response_headers",
	"keepalive_timeout":     "write keep_alive in [timeouts]",
	"client_header_timeout": "write header in [timeouts]",
	"client_body_timeout":   "write idle in [timeouts]",
	"send_timeout":          "write idle in [timeouts]",
	"fastcgi_pass":          "FastCGI is not offered: a server in front of the application is needed",
	"uwsgi_pass":            "uwsgi is not offered: a server in front of the application is needed",
	"scgi_pass":             "SCGI is not offered: a server in front of the application is needed",
	"rewrite":               "write redirect, or a destination's transformer replacePath",
	"if":                    "write locations with methods, queries or headers instead",
	"limit_req":             `write rate = { requests = 10, per = "1s", burst = 20 } in the location`,
	"limit_req_zone":        "write rate in locations",
	"limit_conn_zone":       "write connections_per_client in [limits]",
	"limit_conn":            "write connections_per_client in [limits]",
	"proxy_cache":           "responses are not cached",
	"proxy_cache_path":      "responses are not cached",
	"proxy_cache_valid":     "responses are not cached",
	"proxy_cache_key":       "responses are not cached",
	"proxy_cache_use_stale": "responses are not cached",
} // read-only

// timeouts are the keys of a location's timeouts.
var timeouts = map[string][]string{"proxy_connect_timeout": {"connect"}, "proxy_read_timeout": {"response", "tunnel"},
	"proxy_send_timeout": {"idle"}} // read-only

// setting reads a line that the blocks inside inherit.
func (f *nginxFile) setting(d *directive, s *scope) {
	on := d.arg(0) == "on"
	switch name := d.name(); name {
	case "root":
		s.root = strings.TrimSuffix(d.arg(0), "/")
	case "index":
		s.index = d.arg(0)
	case "set":
		s.variables[strings.TrimPrefix(d.arg(0), "$")] = f.value(d.arg(1), s)
	case "client_max_body_size":
		if n, ok := nginxSize(d.arg(0)); ok && n > 0 {
			s.keys["body_bytes"] = strconv.FormatInt(n, 10)
		} else if ok {
			delete(s.keys, "body_bytes")
		}
	case "gzip", "brotli":
		if on {
			s.keys["compress"] = "true"
		}
	case "allow", "deny":
		s.rules = append(s.rules, rule{d.arg(0), name == "allow"})
	case "auth_basic":
		s.realm = unlessOff(d)
	case "auth_basic_user_file":
		s.file = d.arg(0)
	case "auth_request":
		s.authURI = unlessOff(d)
	case "auth_request_set":
		if name, is := strings.CutPrefix(d.arg(1), authField); is {
			s.variables[strings.TrimPrefix(d.arg(0), "$")] = authField + strings.ReplaceAll(name, "_", "-")
		}
	case "satisfy":
		if d.arg(0) == "any" {
			f.leave(d, "addresses and passwords must both be right")
		}
	case "add_header":
		f.field(d, s.response)
	case "proxy_set_header":
		f.requestField(d, s)
	case "proxy_hide_header":
		s.response[d.arg(0)] = ""
	case "proxy_connect_timeout", "proxy_read_timeout", "proxy_send_timeout":
		for _, key := range timeouts[name] {
			s.timeouts[key] = nginxTime(d.arg(0))
		}
	case "set_real_ip_from":
		f.draft.trust = append(f.draft.trust, strings.TrimSuffix(d.arg(0), ":"))
	case "proxy_ssl_verify":
		s.insecure = !on
	case "proxy_ssl_name":
		s.sni = f.value(d.arg(0), s)
	case "access_log":
		if d.arg(0) != "off" {
			f.leave(d, `write access = "FILE" in [log], which is for all sites`)
		}
	case "autoindex":
		if on {
			f.leave(d, "directories are not listed")
		}
	default:
		if why := instead[name]; why != "" {
			f.leave(d, why)
		} else if !slices.Contains(idle, name) && !strings.HasPrefix(name, "fastcgi_") && !strings.HasPrefix(name, "uwsgi_") &&
			!strings.HasSuffix(name, "_temp_path") {
			f.leave(d, "it has no equivalent")
		}
	}
}

func unlessOff(d *directive) string {
	if d.arg(0) == "off" {
		return ""
	}
	return d.arg(0)
}

// field takes a response field with a constant value.
func (f *nginxFile) field(d *directive, to map[string]string) {
	if strings.Contains(d.arg(1), "$") {
		f.leave(d, "a field's value cannot have variables")
		return
	}
	to[d.arg(0)] = d.arg(1)
}

// requestField takes a request field with a constant value; what tells of the client is always sent.
func (f *nginxFile) requestField(d *directive, s *scope) {
	name, value := strings.ToLower(d.arg(0)), f.value(d.arg(1), s)
	switch {
	case strings.HasPrefix(value, authField):
		s.authFields = append(s.authFields, strings.TrimPrefix(value, authField)+">"+d.arg(0))
	case slices.Contains(forwarded, name) && (strings.Contains(value, "$") || name == "connection" || name == "upgrade"):
	case name == "host" && value != "":
		s.keys["host"] = value // of the destinations, see destinations
	case name == "x-real-ip":
		f.leave(d, "destinations get the client's address as X-Forwarded-For")
	case strings.Contains(value, "$"):
		f.leave(d, "a field's value cannot have variables")
	default:
		s.request[d.arg(0)] = value
	}
}

// authField is in front of the name of a field of another service's answer, as a variable's value.
const authField = "$upstream_http_"

var nginxVariable = regexp.MustCompile(`\$\{?([a-zA-Z0-9_]+)\}?`) // read-only

// value replaces variables that a set line gave a constant.
func (f *nginxFile) value(text string, s *scope) string {
	return nginxVariable.ReplaceAllStringFunc(text, func(found string) string {
		if v, known := s.variables[nginxVariable.FindStringSubmatch(found)[1]]; known {
			return v
		}
		return found
	})
}

func nginxSize(text string) (int64, bool) {
	unit := map[byte]int64{'k': 1 << 10, 'm': 1 << 20, 'g': 1 << 30}
	factor := int64(1)
	if n := len(text); n > 0 && unit[text[n-1]|0x20] > 0 {
		factor, text = unit[text[n-1]|0x20], text[:n-1]
	}
	n, err := strconv.ParseInt(text, 10, 40)
	return n * factor, err == nil
}

// nginxTime returns a time in Go's form: a bare number has seconds, and days become hours.
func nginxTime(text string) string {
	if n, err := strconv.Atoi(text); err == nil {
		return strconv.Itoa(n) + "s"
	}
	if days, err := strconv.Atoi(strings.TrimSuffix(text, "d")); err == nil {
		return strconv.Itoa(24*days) + "h"
	}
	return text
}

// location translates one location of a server.
func (f *nginxFile) location(r *site, v *server, hosts []string, d *directive) {
	if strings.Contains(strings.Join(d.args(), " "), "/.well-known/acme-challenge") && len(f.draft.tlsListen) > 0 {
		return // for certbot's files, or answered by the proxy itself
	}
	p := &place{hosts: hosts}
	if !f.match(p, v, d) {
		return
	}
	s := v.scope.inner()
	block := f.expand(d.block)
	if slices.ContainsFunc(block, func(e directive) bool { return e.name() == "internal" }) {
		return // of auth_request or error_page
	}
	var pass, try, returns *directive
	alias := ""
	if slices.ContainsFunc(block, func(e directive) bool { return e.name() == "add_header" }) {
		s.response = map[string]string{} // those outside are not inherited then
	}
	if slices.ContainsFunc(block, func(e directive) bool { return e.name() == "proxy_set_header" }) {
		s.request = map[string]string{}
	}
	if slices.ContainsFunc(block, func(e directive) bool { return e.name() == "allow" || e.name() == "deny" }) {
		s.rules = nil
	}
	refused := len(f.draft.left)
	for i := range block {
		switch e := &block[i]; e.name() {
		case "proxy_pass", "grpc_pass":
			pass = e
		case "try_files":
			try = e
		case "return":
			returns = e
		case "alias":
			alias = strings.TrimSuffix(e.arg(0), "/")
		case "location":
			f.leave(e, "a location inside another: write it beside the outer one")
		case "error_page":
			if e.arg(0) != "401" { // of auth_request: see redirecting
				f.leave(e, "error_pages are a region's")
			}
		default:
			f.setting(e, &s)
		}
	}
	switch {
	case returns != nil:
		f.returns(p, returns)
	case pass != nil:
		f.pass(p, &s, pass, p.paths)
	case try != nil:
		f.try(p, v, &s, try)
	case alias != "":
		p.destinations = []*destination{{uri: files(alias, &s, nil), keys: strip(p.paths)}}
	case s.root != "" && !slices.ContainsFunc(f.draft.left[refused:], func(l Left) bool { return strings.Contains(l.What, "_pass") }):
		p.destinations = []*destination{{uri: files(s.root, &s, nil)}}
	case len(f.draft.left) > refused:
		return // what was refused is all that it does
	default:
		f.leave(d, "nothing in it could be translated")
		return
	}
	if len(p.destinations) == 0 && len(p.keys) == 0 {
		return
	}
	f.finish(p, &s)
	f.authRequest(p, v, &s, d)
	r.places = append(r.places, p)
}

// authRequest translates auth_request, whose service a location of the server names. What it cannot
// translate must not stand open.
func (f *nginxFile) authRequest(p *place, v *server, s *scope, d *directive) {
	if s.authURI == "" {
		return
	}
	if to := f.verifier(v, s); to != "" {
		p.access = append(p.access, fmt.Sprintf("forward_auth = { uri = %s, copy_headers = %s }", quote(to), list(s.authFields)))
		return
	}
	f.leave(d, "auth_request "+s.authURI+` names a location without a proxy_pass: every request is denied until access.forward_auth = { uri = "http://…" } replaces that`)
	p.access = []string{`deny = ["all"]`}
}

// redirecting are endpoints of known services that answer 401, and those beside them that send to the
// login page themselves: an error_page of nginx's did that.
var redirecting = strings.NewReplacer("/api/authz/auth-request", "/api/authz/forward-auth",
	"/outpost.goauthentik.io/auth/nginx", "/outpost.goauthentik.io/auth/caddy") // read-only

// verifier returns the URI of the service behind auth_request, "" if the server does not say.
func (f *nginxFile) verifier(v *server, s *scope) string {
	longest, found := 0, ""
	for i := range v.at.block {
		e := &v.at.block[i]
		path := e.arg(len(e.args()) - 1)
		if e.name() != "location" || strings.HasPrefix(e.arg(0), "~") || !strings.HasPrefix(s.authURI, path) || len(path) <= longest {
			continue
		}
		inner := s.inner()
		for _, line := range f.expand(e.block) {
			if line.name() == "set" {
				f.setting(&line, &inner)
			}
			to := f.value(line.arg(0), &inner)
			if line.name() != "proxy_pass" || strings.Contains(to, "$") || strings.Contains(to, "unix:") {
				continue
			}
			longest, found = len(path), to+strings.TrimPrefix(s.authURI, path)
			if u, err := url.Parse(to); err == nil && u.Path == "" {
				found = to + s.authURI
			}
		}
	}
	return redirecting.Replace(found)
}

// match sets the paths of a location; false if it has none here.
func (f *nginxFile) match(p *place, v *server, d *directive) bool {
	switch mod, path := d.arg(0), d.arg(1); {
	case mod == "=":
		p.paths = []string{"=" + path}
	case mod == "~", mod == "~*":
		if mod == "~*" {
			path = "(?i)" + path
		}
		if _, err := regexp.Compile(path); err != nil {
			f.leave(d, "RE2 does not support this expression ("+err.Error()+")")
			return false
		}
		p.paths = []string{"~" + path}
	case mod == "^~":
		if v.regexes {
			p.priority = 1
		}
		p.paths = prefix(path)
	case path != "":
		f.leave(d, "an unknown modifier")
		return false
	default:
		p.paths = prefix(mod)
	}
	return true
}

func prefix(path string) []string {
	if path == "/" {
		return nil
	}
	return []string{strings.TrimSuffix(path, "/")}
}

// strip returns the key that removes a location's path from requests.
func strip(paths []string) []string {
	if len(paths) != 1 || !strings.HasPrefix(paths[0], "/") {
		return nil
	}
	return []string{fmt.Sprintf(`transformers = [{ type = "replacePath", options = { pattern = %s, value = "" } }]`, quote(paths[0]))}
}

// files returns the URI of a directory.
func files(dir string, s *scope, options []string) string {
	if s.index != "" && s.index != "index.html" {
		options = append(options, "index="+url.QueryEscape(s.index))
	}
	uri := "files://" + dir
	if len(options) > 0 {
		uri += "?" + strings.Join(options, "&")
	}
	return uri
}

// returns translates a return line.
func (f *nginxFile) returns(p *place, d *directive) {
	code, err := strconv.Atoi(d.arg(0))
	target := d.arg(1)
	if err != nil { // a URL alone
		code, target = 302, d.arg(0)
	}
	switch {
	case code >= 301 && code <= 308 && code != 304:
		to := strings.NewReplacer("$host", "{host}", "$http_host", "{host}", "$server_name", "{host}", "$request_uri", "{path}?{query}",
			"$uri", "{path}", "$is_args$args", "?{query}", "$scheme://", "https://").Replace(target)
		if strings.Contains(to, "$") || strings.Contains(target, "$scheme") {
			f.leave(d, "of variables, a redirect knows the host, the path and the query")
			return
		}
		if strings.HasPrefix(to, "/") {
			to = "https://{host}" + to
			f.leave(d, "a redirect needs a scheme: https was assumed")
		}
		p.set("redirect", "{ to = %s, status = %d }", quote(to), code)
	case code == 444:
		f.leave(d, "a connection is not closed without a response: 403 was taken")
		p.set("respond", "{ status = 403 }")
	case strings.Contains(target, "$"):
		f.leave(d, "a fixed answer cannot have variables")
	case target == "":
		p.set("respond", "{ status = %d }", code)
	default:
		p.set("respond", "{ status = %d, body = %s }", code, quote(target))
	}
}

// pass translates proxy_pass.
func (f *nginxFile) pass(p *place, s *scope, d *directive, paths []string) {
	target := f.value(d.arg(0), s)
	if strings.Contains(target, "$") {
		f.leave(d, "the destination depends on variables; write a location for each")
		return
	}
	target = strings.Replace(strings.Replace(target, "grpc://", "http://", 1), "grpcs://", "https://", 1)
	keys := []string(nil)
	if strings.HasPrefix(d.arg(0), "grpc") {
		keys = append(keys, `http = "2"`)
	}
	if host := s.keys["host"]; host != "" {
		keys = append(keys, "host = "+quote(host))
	}
	scheme, rest, _ := strings.Cut(target, "://")
	if socket, is := strings.CutPrefix(rest, "unix:"); is {
		socket, path, _ := strings.Cut(socket, ":")
		if path != "" && path != "/" {
			f.leave(d, "a path behind a unix socket has no equivalent")
		}
		p.destinations = []*destination{{uri: "unix:" + socket, keys: keys}}
		return
	}
	host, path, hasPath := strings.Cut(rest, "/")
	if hasPath && len(paths) == 1 && !strings.HasPrefix(paths[0], "~") {
		keys = append(keys, strip([]string{strings.TrimPrefix(paths[0], "=")})...)
	}
	if scheme == "https" {
		if s.sni != "" {
			keys = append(keys, "server_name = "+quote(s.sni))
		}
		if s.insecure || s.sni == "" {
			keys = append(keys, "insecure = true # as nginx, unless proxy_ssl_verify is on; better: ca = \"FILE\"")
		}
	}
	base := ""
	if path = strings.TrimSuffix(path, "/"); path != "" {
		base = "/" + path
	}
	u := f.upstreams[host]
	if u == nil {
		p.destinations = []*destination{{uri: scheme + "://" + host + base, keys: keys}}
		return
	}
	p.keys = append(p.keys, u.keys...)
	if p.fallback = u.backup; len(u.servers) == 0 {
		f.leave(d, "its upstream has no server")
	}
	for _, one := range u.servers {
		uri := strings.Replace(one.uri, "http://", scheme+"://", 1)
		if !strings.HasPrefix(uri, "unix:") {
			uri += base
		}
		p.destinations = append(p.destinations, &destination{uri: uri, keys: append(slices.Clone(one.keys), keys...)})
	}
}

// try translates try_files.
func (f *nginxFile) try(p *place, v *server, s *scope, d *directive) {
	last := d.arg(len(d.args()) - 1)
	tried := d.args()[:max(len(d.args())-1, 0)]
	var options []string
	index := false // directories are served, by their index
	for _, t := range tried {
		switch {
		case t == "$uri" || t == "$uri/index.html":
		case t == "$uri/":
			index = true
		case strings.HasPrefix(t, "$uri."):
			options = append(options, "suffix="+url.QueryEscape(strings.TrimPrefix(t, "$uri")))
		default:
			f.leave(d, t+" is not looked for")
		}
	}
	switch named := v.named[last]; {
	case s.root == "":
		f.leave(d, "it needs a root")
	case strings.HasPrefix(last, "="):
		p.destinations = []*destination{{uri: files(s.root, s, options)}}
	case named != nil:
		inner := s.inner()
		for _, e := range f.expand(named.block) {
			switch e.name() {
			case "proxy_pass":
				f.pass(p, &inner, &e, nil)
			default:
				f.setting(&e, &inner)
			}
		}
		if len(p.destinations) == 0 {
			f.leave(d, last+" has no proxy_pass")
			return
		}
		s.timeouts, s.request = inner.timeouts, inner.request
		p.destinations = slices.Insert(p.destinations, 0, &destination{uri: files(s.root, s, append(options, "missing=next"))})
		if index && (s.index == "" || s.index == "index.html") {
			p.destinations[0].uri += "&index=index.html"
		}
	case strings.HasPrefix(last, "/") && !strings.Contains(last, "?") && !strings.HasSuffix(last, ".php"):
		p.destinations = []*destination{{uri: files(s.root, s, append(options, "fallback="+strings.TrimPrefix(last, "/")))}}
	default:
		f.leave(d, "the last of it must be a file, a status or a location of this server")
	}
}

// finish writes what a location inherits.
func (f *nginxFile) finish(p *place, s *scope) {
	for _, k := range sorted(s.keys) {
		if k != "host" {
			p.set(k, "%s", s.keys[k])
		}
	}
	if len(s.timeouts) > 0 && len(p.destinations) > 0 {
		p.set("timeouts", "%s", table(s.timeouts))
	}
	fields("response_headers", s.response, p)
	if len(p.destinations) > 0 {
		fields("request_headers", s.request, p)
	}
	allow, deny := networks(s.rules)
	if len(allow) > 0 {
		p.access = append(p.access, "allow = "+list(allow))
	}
	if len(deny) > 0 {
		p.access = append(p.access, "deny = "+list(deny))
	}
	if s.realm != "" && s.file != "" {
		file := s.file
		if !filepath.IsAbs(file) {
			file = filepath.Join(f.dir, file)
		}
		p.access = append(p.access, fmt.Sprintf("basic_auth = { realm = %s, file = %s }", quote(s.realm), quote(file)))
	}
}

// fields writes fields that are set, and those with an empty value, which are removed.
func fields(key string, values map[string]string, p *place) {
	set, removed := map[string]string{}, []string(nil)
	for _, name := range sorted(values) {
		if values[name] == "" {
			removed = append(removed, name)
		} else {
			set[name] = values[name]
		}
	}
	var parts []string
	if len(removed) > 0 {
		parts = append(parts, "remove = "+list(removed))
	}
	if len(set) > 0 {
		parts = append(parts, "set = "+table(set))
	}
	if len(parts) > 0 {
		p.set(key, "{ %s }", strings.Join(parts, ", "))
	}
}

// networks returns the lists of rules of which the first that matches counts: here the longest prefix
// does, so a rule behind one that covers it must go.
func networks(rules []rule) (allow, deny []string) {
	var before []netip.Prefix
	for _, r := range rules {
		if r.network == "unix:" {
			continue
		}
		n, err := netip.ParsePrefix(r.network)
		if a, e := netip.ParseAddr(r.network); e == nil {
			n, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		if err == nil {
			if slices.ContainsFunc(before, func(b netip.Prefix) bool { return b.Bits() <= n.Bits() && b.Contains(n.Addr()) }) {
				continue
			}
			before = append(before, n)
		}
		if r.allow {
			allow = append(allow, r.network)
		} else {
			deny = append(deny, r.network)
		}
	}
	if slices.Contains(allow, "all") { // everyone, where no other address is allowed
		allow = nil
	}
	if len(allow) > 0 {
		deny = slices.DeleteFunc(deny, func(n string) bool { return n == "all" })
	}
	return allow, deny
}
