package convert

import (
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// caddyReader is what is known while a Caddyfile is read.
type caddyReader struct {
	draft    draft
	snippets map[string][]directive
	plain    bool // a named site is served without TLS
	imports  int
}

// caddySite is a site block.
type caddySite struct {
	hosts    []string
	bind     string // the address of its ports; "" for all
	region   *site
	root     string
	compress bool
	response map[string]string
	removed  []string
	auth     []string // lines of access
	try      string   // the fallback of try_files
	matchers map[string]directive
}

func caddyfile(name string, text []byte) (*Result, error) {
	all, err := parse(name, text, true)
	if err != nil {
		return nil, err
	}
	c := &caddyReader{draft: draft{from: name}, snippets: map[string][]directive{}}
	for i := range all {
		d := &all[i]
		switch {
		case d.name() == "" && d.open:
			c.global(d.block)
		case strings.HasPrefix(d.name(), "(") && strings.HasSuffix(d.name(), ")"):
			c.snippets[strings.Trim(d.name(), "()")] = d.block
		}
	}
	bare := len(all) > 0 && !all[0].open // a site without braces: its address, then its directives
	if bare {
		site := all[0]
		site.block, site.open = all[1:], true
		c.site(&site)
	}
	for i := 0; i < len(all) && !bare; i++ {
		if d := &all[i]; d.name() != "" && !strings.HasPrefix(d.name(), "(") {
			c.site(d)
		}
	}
	if c.plain && c.draft.redirect {
		c.draft.redirect = false
		c.draft.left = append(c.draft.left, Left{name, 1, "redirects to https",
			"redirect = true in [tls] would be for the sites without TLS too; write redirect in locations of the others, for NAME:80"})
	}
	return c.draft.result(), nil
}

func (c *caddyReader) leave(d *directive, why string) {
	c.draft.left = append(c.draft.left, d.left(why))
}

func (c *caddyReader) global(list []directive) {
	for i := range list {
		switch d := &list[i]; d.name() {
		case "email":
			c.draft.email = d.arg(0)
		case "admin", "order", "grace_period":
		default:
			c.leave(d, "it has no equivalent here")
		}
	}
}

// expand replaces import lines by their snippets.
func (c *caddyReader) expand(list []directive) []directive {
	var all []directive
	for i := range list {
		d := &list[i]
		if d.name() != "import" {
			all = append(all, *d)
			continue
		}
		block, known := c.snippets[d.arg(0)]
		switch {
		case !known:
			c.leave(d, "the file has no such snippet; files are converted one by one")
		case c.imports >= maxIncludes:
			if c.imports++; c.imports == maxIncludes+1 {
				c.leave(d, "snippets import each other")
			}
		case len(d.args()) > 1:
			c.leave(d, "snippets with arguments are not filled in")
		default:
			c.imports++
			all = append(all, c.expand(block)...)
		}
	}
	return all
}

// address takes a site's address: its scheme and port say what is listened on.
func (c *caddyReader) address(s *caddySite, text string, d *directive) {
	scheme, host, found := strings.Cut(strings.TrimSuffix(text, ","), "://")
	if !found {
		scheme, host = "", scheme
	}
	host, path, _ := strings.Cut(host, "/")
	if path != "" && path != "*" {
		c.leave(d, "a path in a site's address: write handle in the site")
	}
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		name, port = host, ""
	}
	local := name == "" || name == "localhost" || net.ParseIP(strings.Trim(name, "[]")) != nil
	switch {
	case scheme == "http" || port == "80" || scheme == "" && name == "" && port != "443":
		if port == "" {
			port = "80"
		}
		c.plain = c.plain || name != ""
		c.draft.listen = append(c.draft.listen, s.bind+":"+port)
	default:
		if port == "" {
			port = "443"
		}
		c.draft.tlsListen = append(c.draft.tlsListen, s.bind+":"+port)
		if local {
			c.leave(d, "a certificate of its own for "+name+" is needed: add [[tls.certificates]], for example of mkcert")
		} else {
			c.draft.acme = append(c.draft.acme, name)
		}
		c.draft.listen, c.draft.redirect = append(c.draft.listen, s.bind+":80"), true
	}
	if name != "" {
		s.hosts = append(s.hosts, name)
	}
}

func (c *caddyReader) site(d *directive) {
	s := &caddySite{region: &site{}, response: map[string]string{}, matchers: map[string]directive{}}
	block := c.expand(d.block)
	for i := range block {
		switch e := &block[i]; {
		case e.name() != "bind":
		case len(e.args()) == 1 && net.ParseIP(e.arg(0)) != nil && !strings.Contains(e.arg(0), ":"):
			s.bind = e.arg(0)
		default:
			c.leave(e, "write the addresses in listen")
		}
	}
	for _, a := range d.words {
		for part := range strings.SplitSeq(a, ",") {
			if part != "" {
				c.address(s, part, d)
			}
		}
	}
	if len(s.hosts) > 0 {
		s.region.id = s.hosts[0]
	}
	c.draft.sites = append(c.draft.sites, s.region)
	c.settings(s, block)
	c.handlers(s, block, nil, false)
}

// settings reads what concerns all of a site's requests.
func (c *caddyReader) settings(s *caddySite, block []directive) {
	for i := range block {
		switch d := &block[i]; d.name() {
		case "root":
			s.root = d.arg(len(d.args()) - 1)
		case "encode":
			s.compress = true
		case "tls":
			c.tls(s, d)
		case "try_files":
			s.try = d.arg(len(d.args()) - 1)
		case "header":
			c.header(s, d)
		case "log":
			c.leave(d, `write access = "FILE" in [log], which is for all sites`)
		case "basic_auth", "basicauth":
			users := map[string]string{}
			for _, u := range d.block {
				users[u.name()] = u.arg(0)
			}
			if c.whole(d) {
				s.auth = append(s.auth, "basic_auth = { users = "+table(users)+" }")
			}
		case "forward_auth":
			c.forwardAuth(s, d)
		default:
			if strings.HasPrefix(d.name(), "@") {
				s.matchers[d.name()] = *d
			}
		}
	}
}

// whole reports whether a directive is for all requests of the site; otherwise it is left.
func (c *caddyReader) whole(d *directive) bool {
	if m := d.arg(0); m == "" || m == "*" || !strings.HasPrefix(m, "/") && !strings.HasPrefix(m, "@") {
		return true
	}
	c.leave(d, "for some requests only: write it in a location of theirs")
	return false
}

func (c *caddyReader) tls(s *caddySite, d *directive) {
	switch {
	case len(d.args()) == 2:
		c.draft.certificates = append(c.draft.certificates, [2]string{d.arg(0), d.arg(1)})
		c.draft.acme = slices.DeleteFunc(c.draft.acme, func(h string) bool { return slices.Contains(s.hosts, h) })
	case strings.Contains(d.arg(0), "@"):
		c.draft.email = d.arg(0)
	default:
		c.leave(d, "write [[tls.certificates]] or [tls.acme]; wildcards need a certificate from certbot or lego")
	}
	if len(d.block) > 0 {
		c.leave(d, "of its block only what [tls] has is possible: client_ca, client_optional")
	}
}

func (c *caddyReader) header(s *caddySite, d *directive) {
	if !c.whole(d) {
		return
	}
	one := func(words []string) {
		if len(words) > 0 && words[0] == "*" {
			words = words[1:]
		}
		switch {
		case len(words) == 1 && strings.HasPrefix(words[0], "-"):
			s.removed = append(s.removed, words[0][1:])
		case len(words) == 2 && !strings.ContainsAny(words[1], "{}"):
			s.response[strings.TrimLeft(words[0], "+?>")] = words[1]
		default:
			c.leave(d, strings.Join(words, " ")+": a field has a name and a constant value")
		}
	}
	if len(d.block) == 0 {
		one(d.args())
	}
	for _, h := range d.block {
		one(h.words)
	}
}

func (c *caddyReader) forwardAuth(s *caddySite, d *directive) {
	args := d.args()
	if len(args) > 1 && (args[0] == "*") {
		args = args[1:]
	}
	if len(args) != 1 {
		c.leave(d, "for some requests only: write it in a location of theirs")
		return
	}
	uri, copied := origin(args[0]), []string(nil)
	for _, o := range d.block {
		switch o.name() {
		case "uri":
			uri += o.arg(0)
		case "copy_headers":
			copied = append(copied, o.args()...)
			for _, h := range o.block {
				copied = append(copied, h.name())
			}
		case "header_up", "trusted_proxies":
		default:
			c.leave(&o, "it has no equivalent in forward_auth")
		}
	}
	s.auth = append(s.auth, fmt.Sprintf("forward_auth = { uri = %s, copy_headers = %s }", quote(uri), list(copied)))
}

// origin returns a URI of what Caddy may write as host:port or :port.
func origin(text string) string {
	switch {
	case strings.Contains(text, "://"):
		return text
	case strings.HasPrefix(text, "unix/"):
		return "unix:" + strings.TrimPrefix(strings.TrimPrefix(text, "unix/"), "/")
	case strings.HasPrefix(text, ":"):
		return "http://127.0.0.1" + text
	}
	return "http://" + text
}

// handlers makes locations of the directives that answer. paths are those of the handle around them.
func (c *caddyReader) handlers(s *caddySite, block []directive, paths []string, strips bool) {
	serves := false
	for i := range block {
		d := &block[i]
		switch d.name() {
		case "handle", "handle_path", "route":
			if inner, ok := c.paths(s, d); ok {
				list := c.expand(d.block)
				outer := *s
				c.settings(&outer, list)
				c.handlers(&outer, list, join(paths, inner), d.name() == "handle_path")
			}
		case "reverse_proxy", "respond", "redir", "file_server":
			inner, ok := c.paths(s, d)
			if !ok {
				continue
			}
			serves = true
			p := &place{hosts: s.hosts, paths: join(paths, inner)}
			c.answer(s, p, d, strips)
			if len(p.destinations) > 0 || len(p.keys) > 0 {
				c.finish(s, p)
				s.region.places = append(s.region.places, p)
			}
		case "root", "encode", "tls", "try_files", "header", "log", "basic_auth", "basicauth", "forward_auth", "bind":
		case "php_fastcgi":
			c.leave(d, "FastCGI is not offered: a server in front of the application is needed")
		case "handle_errors":
			c.leave(d, "write error_pages in the region")
		case "request_body":
			for _, o := range d.block {
				if o.name() == "max_size" {
					c.leave(d, "write body_bytes = N in the location")
				}
			}
		default:
			if !strings.HasPrefix(d.name(), "@") {
				c.leave(d, "it has no equivalent here")
			}
		}
	}
	if !serves && s.try != "" {
		c.draft.left = append(c.draft.left, Left{c.draft.from, block[0].line, "try_files " + s.try, "nothing serves these files"})
	}
}

// join puts a handle's paths in front of those inside.
func join(outer, inner []string) []string {
	if len(inner) == 0 {
		return outer
	}
	return inner
}

// paths returns the paths of a directive's matcher; none for all.
func (c *caddyReader) paths(s *caddySite, d *directive) ([]string, bool) {
	m := d.arg(0)
	switch {
	case d.name() == "redir" && len(d.args()) == 1: // its target
	case strings.HasPrefix(m, "/"):
		d.words = slices.Delete(slices.Clone(d.words), 1, 2)
		return []string{caddyPath(m)}, true
	case m == "*":
		d.words = slices.Delete(slices.Clone(d.words), 1, 2)
	case strings.HasPrefix(m, "@"):
		found, known := s.matchers[m]
		if !known {
			c.leave(d, "the site has no matcher "+m)
			return nil, false
		}
		lines := found.block
		if len(found.words) > 1 {
			lines = append(lines, directive{file: found.file, line: found.line, words: found.words[1:]})
		}
		var paths []string
		for i := range lines {
			switch e := &lines[i]; e.name() {
			case "path":
				for _, p := range e.args() {
					paths = append(paths, caddyPath(p))
				}
			case "path_regexp":
				expression := e.arg(len(e.args()) - 1)
				if _, err := regexp.Compile(expression); err != nil {
					c.leave(e, err.Error())
					return nil, false
				}
				paths = append(paths, "~"+expression)
			case "file", "not":
				c.leave(e, "write files://DIRECTORY?missing=next as the first destination, and the application as the second")
				return nil, false
			default:
				c.leave(e, "of matchers, path and path_regexp are translated; a location also has methods, queries and headers")
				return nil, false
			}
		}
		d.words = slices.Delete(slices.Clone(d.words), 1, 2)
		return paths, true
	}
	return nil, true
}

// caddyPath returns a path matcher in the proxy's form: exact without a star.
func caddyPath(m string) string {
	switch {
	case m == "/*":
		return "/"
	case strings.HasSuffix(m, "/*"):
		return strings.TrimSuffix(m, "/*")
	case strings.HasSuffix(m, "*") && !strings.Contains(m[:len(m)-1], "*"):
		return "^" + regexp.QuoteMeta(strings.TrimSuffix(m, "*"))
	case strings.Contains(m, "*"):
		return "^" + strings.ReplaceAll(regexp.QuoteMeta(m), `\*`, ".*") + "$"
	}
	return "=" + m
}

// answer makes what a directive does.
func (c *caddyReader) answer(s *caddySite, p *place, d *directive, strips bool) {
	switch d.name() {
	case "respond":
		status, body := 200, ""
		for _, a := range d.args() {
			if n, err := strconv.Atoi(a); err == nil && n >= 100 && n <= 599 {
				status = n
			} else {
				body = a
			}
		}
		switch {
		case strings.Contains(body, "{"):
			c.leave(d, "a fixed answer cannot have placeholders")
		case body == "":
			p.set("respond", "{ status = %d }", status)
		default:
			p.set("respond", "{ status = %d, body = %s }", status, quote(body))
		}
	case "redir":
		c.redir(p, d)
	case "file_server":
		if s.root == "" {
			c.leave(d, "it needs a root")
			return
		}
		if slices.Contains(d.args(), "browse") {
			c.leave(d, "directories are not listed")
		}
		p.destinations = []*destination{{uri: c.directory(s), keys: stripped(p, strips)}}
	case "reverse_proxy":
		c.proxy(s, p, d, strips)
	}
}

func stripped(p *place, strips bool) []string {
	if !strips {
		return nil
	}
	return strip(p.paths)
}

// directory returns the URI of a site's files.
func (c *caddyReader) directory(s *caddySite) string {
	if strings.HasPrefix(s.try, "/") {
		return "files://" + s.root + "?fallback=" + url.QueryEscape(strings.TrimPrefix(s.try, "/"))
	}
	return "files://" + s.root
}

func (c *caddyReader) redir(p *place, d *directive) {
	status := 302
	switch code := d.arg(1); code {
	case "permanent":
		status = 301
	case "temporary", "":
	default:
		if n, err := strconv.Atoi(code); err == nil {
			status = n
		}
	}
	to := strings.NewReplacer("{uri}", "{path}?{query}", "{http.request.uri}", "{path}?{query}", "{http.request.host}", "{host}").Replace(d.arg(0))
	if strings.HasPrefix(to, "/") {
		to = "https://{host}" + to
	}
	if rest := strings.NewReplacer("{host}", "", "{path}", "", "{query}", "").Replace(to); strings.ContainsAny(rest, "{}") {
		c.leave(d, "a redirect knows {host}, {path} and {query}")
		return
	}
	p.set("redirect", "{ to = %s, status = %d }", quote(to), status)
}

// proxy translates reverse_proxy.
func (c *caddyReader) proxy(s *caddySite, p *place, d *directive, strips bool) {
	targets, keys := d.args(), stripped(p, strips)
	health := map[string]string{}
	request := map[string]string{}
	secure := false
	for i := range d.block {
		switch o := &d.block[i]; o.name() {
		case "to":
			targets = append(targets, o.args()...)
		case "lb_policy":
			c.policy(p, o)
		case "health_uri":
			health["path"] = o.arg(0)
		case "health_interval":
			health["interval"] = o.arg(0)
		case "health_timeout":
			health["timeout"] = o.arg(0)
		case "header_up":
			name := o.arg(0)
			switch {
			case slices.Contains(forwarded, strings.ToLower(name)) && name != "Host" || strings.EqualFold(name, "host") && o.arg(1) == "{host}":
			case strings.EqualFold(name, "host") && strings.Contains(o.arg(1), "upstream"):
				keys = append(keys, `host = "upstream"`)
			case strings.ContainsAny(o.arg(1), "{}") || len(o.args()) != 2 && !strings.HasPrefix(name, "-"):
				c.leave(o, "a field has a name and a constant value")
			default:
				request[strings.TrimPrefix(name, "-")] = o.arg(1)
			}
		case "flush_interval", "buffer_requests", "lb_try_duration", "lb_try_interval", "header_down", "trusted_proxies":
			if o.name() == "header_down" {
				c.leave(o, "write response_headers in the location")
			}
		case "transport":
			own, tls := c.transport(p, o)
			keys, secure = append(keys, own...), secure || tls
		default:
			c.leave(o, "it has no equivalent")
		}
	}
	if len(health) > 0 {
		keys = append(keys, "health = "+table(health))
	}
	c.targets(p, d, targets, keys, secure)
	fields("request_headers", request, p)
}

// transport returns the keys of destinations, and whether they have TLS.
func (c *caddyReader) transport(p *place, d *directive) (keys []string, secure bool) {
	for i := range d.block {
		switch t := &d.block[i]; t.name() {
		case "tls":
			secure = true
		case "tls_insecure_skip_verify":
			secure, keys = true, append(keys, "insecure = true")
		case "tls_server_name":
			secure, keys = true, append(keys, "server_name = "+quote(t.arg(0)))
		case "versions":
			if slices.Contains(t.args(), "h2c") || slices.Equal(t.args(), []string{"2"}) {
				keys = append(keys, `http = "2"`)
			}
		case "read_timeout", "response_header_timeout":
			p.set("timeouts", "{ response = %s }", quote(t.arg(0)))
		default:
			c.leave(t, "it has no equivalent")
		}
	}
	return keys, secure
}

// targets makes the destinations.
func (c *caddyReader) targets(p *place, d *directive, targets, keys []string, secure bool) {
	for _, t := range targets {
		uri := origin(t)
		if h2c, is := strings.CutPrefix(uri, "h2c://"); is {
			uri, keys = "http://"+h2c, append(keys, `http = "2"`)
		}
		if secure {
			uri = strings.Replace(uri, "http://", "https://", 1)
		}
		if strings.Contains(uri, "{") {
			c.leave(d, "the destination depends on a placeholder")
			continue
		}
		own := keys
		if strings.HasPrefix(uri, "https://") && !slices.ContainsFunc(keys, func(k string) bool { return strings.HasPrefix(k, "host") }) {
			own = append(slices.Clone(keys), `host = "upstream"`) // as Caddy does for https
		}
		p.destinations = append(p.destinations, &destination{uri: uri, keys: own})
	}
}

func (c *caddyReader) policy(p *place, d *directive) {
	switch d.arg(0) {
	case "round_robin", "weighted_round_robin":
	case "least_conn":
		p.set("balance", `"least_connections"`)
	case "random", "random_choose":
		p.set("balance", `"two_choices"`)
	case "ip_hash", "client_ip_hash":
		p.set("balance", `"hash"`)
	case "uri_hash":
		p.set("balance", `"hash"`)
		p.set("key", `"path"`)
	case "cookie":
		p.set("balance", `"sticky"`)
		if d.arg(1) != "" {
			p.set("key", "%s", quote("cookie:"+d.arg(1)))
		}
	case "header":
		p.set("balance", `"hash"`)
		p.set("key", "%s", quote("header:"+d.arg(1)))
	default:
		c.leave(d, "round_robin, least_connections, two_choices, hash and sticky are possible")
	}
}

// finish writes what a location has of its site.
func (c *caddyReader) finish(s *caddySite, p *place) {
	if s.compress {
		p.set("compress", "true")
	}
	all := map[string]string{}
	for name, value := range s.response {
		all[name] = value
	}
	for _, name := range s.removed {
		all[name] = ""
	}
	fields("response_headers", all, p)
	p.access = append(p.access, s.auth...)
}
