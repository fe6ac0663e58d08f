package convert

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// nginxFile is what is known while a file of nginx's is read.
type nginxFile struct {
	draft     draft
	dir       string // to which includes are relative
	upstreams map[string]*upstream
	servers   []*server
	includes  int
}

type upstream struct {
	servers []destination
	backup  string
	keys    []string // of the locations that use it
}

// server is a server block, before it is known which ports its names have elsewhere.
type server struct {
	at      directive
	names   []string
	ports   []string // of its listen lines
	secure  bool
	plain   bool
	scope   scope
	named   map[string]*directive // locations named @…
	regexes bool                  // has locations that are regular expressions
	unnamed bool                  // has a name that was left out
}

// scope is what inner blocks inherit.
type scope struct {
	root, index string
	variables   map[string]string // set by constants
	keys        map[string]string // of the location
	response    map[string]string // fields
	request     map[string]string
	rules       []rule
	realm, file string
	authURI     string
	authFields  []string // that its answers have for the destination
	timeouts    map[string]string
	insecure    bool
	sni         string
}

// rule is an allow or deny line.
type rule struct {
	network string
	allow   bool
}

func newScope() scope {
	return scope{variables: map[string]string{}, keys: map[string]string{}, response: map[string]string{}, request: map[string]string{},
		timeouts: map[string]string{}}
}

func (s scope) inner() scope {
	s.variables, s.keys, s.timeouts = maps.Clone(s.variables), maps.Clone(s.keys), maps.Clone(s.timeouts)
	s.request, s.response = maps.Clone(s.request), maps.Clone(s.response)
	s.rules, s.authFields = slices.Clone(s.rules), slices.Clone(s.authFields)
	return s
}

// idle are directives that need no line here: what they ask for is always so, or nginx's own business.
var idle = strings.Fields(`worker_processes worker_connections worker_rlimit_nofile daemon master_process lock_file user pid events error_log sendfile tcp_nopush tcp_nodelay
	types default_type server_tokens multi_accept use log_format types_hash_max_size types_hash_bucket_size server_names_hash_bucket_size
	server_names_hash_max_size map_hash_bucket_size ssl_protocols ssl_ciphers ssl_prefer_server_ciphers ssl_session_cache
	ssl_session_timeout ssl_session_tickets ssl_dhparam ssl_ecdh_curve ssl_stapling ssl_stapling_verify ssl_trusted_certificate
	ssl_buffer_size resolver resolver_timeout http2 http3 quic_retry
	proxy_http_version proxy_buffering proxy_request_buffering proxy_buffer_size proxy_buffers proxy_busy_buffers_size proxy_max_temp_file_size
	proxy_ignore_client_abort proxy_cache_bypass proxy_no_cache proxy_headers_hash_max_size proxy_headers_hash_bucket_size
	proxy_ssl_server_name proxy_ssl_protocols proxy_ssl_session_reuse client_body_buffer_size client_header_buffer_size
	large_client_header_buffers keepalive_requests reset_timedout_connection gzip_vary gzip_proxied gzip_comp_level gzip_buffers
	gzip_http_version gzip_min_length gzip_types gzip_disable gzip_static brotli_types brotli_comp_level brotli_static
	log_not_found load_module open_file_cache open_file_cache_valid port_in_redirect absolute_redirect charset
	internal proxy_pass_request_body proxy_pass_request_headers proxy_intercept_errors proxy_pass_header accept_mutex recursive_error_pages client_body_in_file_only chunked_transfer_encoding aio directio output_buffers
	real_ip_recursive real_ip_header proxy_redirect lingering_close keepalive_disable etag if_modified_since zone`) // read-only

// forwarded are request fields that destinations get without a line.
var forwarded = []string{"host", "x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "upgrade", "connection",
	"accept-encoding"} // read-only

func nginx(name string, text []byte) (*Result, error) {
	all, err := parse(name, text, false)
	if err != nil {
		return nil, err
	}
	f := &nginxFile{draft: draft{from: name}, dir: filepath.Dir(name), upstreams: map[string]*upstream{}}
	http := newScope()
	f.outer(all, &http)
	for _, s := range f.servers {
		f.serve(s)
	}
	return f.draft.result(), nil
}

func (f *nginxFile) leave(d *directive, why string) { f.draft.left = append(f.draft.left, d.left(why)) }

// included returns the directives of the files of an include line.
func (f *nginxFile) included(d *directive) []directive {
	pattern := d.arg(0)
	if base := filepath.Base(pattern); base == "mime.types" || strings.HasSuffix(base, "_params") || strings.HasPrefix(base, "options-ssl") {
		return nil
	}
	if !filepath.IsAbs(pattern) {
		pattern = filepath.Join(f.dir, pattern)
	}
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 && !strings.ContainsAny(pattern, "*?[") {
		f.leave(d, "the file is not here: convert where it is")
		return nil
	}
	if f.includes++; f.includes > maxIncludes {
		if f.includes == maxIncludes+1 {
			f.leave(d, "files include each other")
		}
		return nil
	}
	var all []directive
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.leave(d, err.Error())
			continue
		}
		list, err := parse(file, text, false)
		if err != nil {
			f.leave(d, err.Error())
			continue
		}
		all = append(all, f.expand(list)...)
	}
	return all
}

// expand replaces include lines by what they include.
func (f *nginxFile) expand(list []directive) []directive {
	var all []directive
	for i := range list {
		if list[i].name() == "include" {
			all = append(all, f.included(&list[i])...)
			continue
		}
		all = append(all, list[i])
	}
	return all
}

// outer reads the blocks around servers.
func (f *nginxFile) outer(list []directive, s *scope) {
	list = f.expand(list)
	for i := range list { // upstreams may stand behind the servers that use them
		if d := &list[i]; d.name() == "upstream" {
			f.upstreams[d.arg(0)] = f.upstream(d)
		}
	}
	for i := range list {
		switch d := &list[i]; d.name() {
		case "http":
			f.outer(d.block, s)
		case "upstream":
		case "server":
			f.server(d, s.inner())
		case "map":
			if !strings.Contains(strings.ToLower(strings.Join(d.words, " ")), "upgrade") {
				f.leave(d, "variables are not computed here")
			}
		case "stream", "mail":
			f.leave(d, "only HTTP is served")
		default:
			f.setting(d, s)
		}
	}
}

// counted are the keys of a destination that have a number.
var counted = map[string]string{"weight": "weight = %d", "max_conns": "max_connections = %d", "max_fails": "eject = { failures = %d }"} // read-only

func (f *nginxFile) upstream(d *directive) *upstream {
	u := &upstream{}
	for i := range d.block {
		switch e := &d.block[i]; e.name() {
		case "server":
			one := destination{uri: "http://" + strings.TrimSuffix(e.arg(0), "/")}
			if path, is := strings.CutPrefix(e.arg(0), "unix:"); is {
				one.uri = "unix:" + path
			}
			for _, option := range e.args()[min(1, len(e.args())):] {
				name, value, _ := strings.Cut(option, "=")
				switch name {
				case "weight", "max_fails", "max_conns":
					n, err := strconv.Atoi(value)
					if err != nil || n < 0 {
						f.leave(e, option+" is not a number")
						continue
					}
					if n == 0 && name == "max_fails" { // never
						n = -1
					}
					one.keys = append(one.keys, fmt.Sprintf(counted[name], n))
				case "down":
					f.leave(e, "leave it out as long as it is down")
				case "backup":
					u.backup = one.uri
				case "fail_timeout", "resolve", "zone":
				default:
					f.leave(e, option+" has no equivalent")
				}
			}
			if u.backup != one.uri {
				u.servers = append(u.servers, one)
			}
		case "least_conn":
			u.keys = append(u.keys, `balance = "least_connections"`)
		case "ip_hash":
			u.keys = append(u.keys, `balance = "hash"`)
		case "random":
			u.keys = append(u.keys, `balance = "two_choices"`)
		case "hash":
			key := map[string]string{"$remote_addr": "client", "$binary_remote_addr": "client", "$request_uri": "path", "$uri": "path"}[e.arg(0)]
			if name, is := strings.CutPrefix(e.arg(0), "$cookie_"); is {
				key = "cookie:" + name
			}
			if name, is := strings.CutPrefix(e.arg(0), "$http_"); is {
				key = "header:" + strings.ReplaceAll(name, "_", "-")
			}
			if key == "" {
				f.leave(e, "client, path, a header or a cookie can be hashed")
				continue
			}
			u.keys = append(u.keys, `balance = "hash"`, "key = "+quote(key))
		case "sticky":
			if e.arg(0) == "cookie" {
				u.keys = append(u.keys, `balance = "sticky"`, "key = "+quote("cookie:"+e.arg(1)))
				continue
			}
			f.leave(e, `write balance = "sticky", which sets a cookie of its own`)
		case "keepalive", "keepalive_timeout", "keepalive_requests", "zone": // connections are always kept
		default:
			f.leave(e, "it has no equivalent")
		}
	}
	return u
}

// server reads a server block's own lines.
func (f *nginxFile) server(d *directive, s scope) {
	v := &server{at: *d, scope: s, named: map[string]*directive{}}
	v.at.block = f.expand(d.block)
	for i := range v.at.block {
		switch e := &v.at.block[i]; e.name() {
		case "server_name":
			for _, n := range e.args() {
				switch {
				case n == "_" || n == "":
				case strings.HasPrefix(n, "~") || strings.Count(n, "*") > 1:
					f.leave(e, "hosts are names, *.suffix or prefix.*: this one was left out")
					v.unnamed = true
				case strings.HasPrefix(n, "."):
					v.names = append(v.names, n[1:], "*"+n)
				default:
					v.names = append(v.names, n)
				}
			}
		case "listen":
			f.listen(v, e)
		case "location":
			if name := e.arg(0); strings.HasPrefix(name, "@") {
				v.named[name] = e
			}
			v.regexes = v.regexes || strings.HasPrefix(e.arg(0), "~")
		}
	}
	if !v.plain && !v.secure {
		v.plain = true
		f.draft.listen = append(f.draft.listen, ":80")
		v.ports = append(v.ports, "80")
	}
	f.servers = append(f.servers, v)
}

func (f *nginxFile) listen(v *server, d *directive) {
	address := d.arg(0)
	port := "80"
	switch host, p, err := net.SplitHostPort(address); {
	case strings.HasPrefix(address, "unix:"):
		port = ""
	case err == nil:
		if port = p; host == "*" || host == "::" || host == "0.0.0.0" {
			host = ""
		}
		address = net.JoinHostPort(host, port)
	default:
		if _, err := strconv.Atoi(address); err == nil {
			port, address = address, ":"+address
		} else if at, err := netip.ParseAddr(strings.Trim(address, "[]")); err == nil {
			address = net.JoinHostPort(at.String(), port)
		} else {
			f.leave(d, "an address or a port is needed")
			return
		}
	}
	if slices.Contains(d.args(), "quic") { // beside the same port without
		f.leave(d, "clients are served by HTTP/1.1 and HTTP/2")
		return
	}
	v.ports = append(v.ports, port)
	if slices.Contains(d.args(), "ssl") {
		v.secure = true
		f.draft.tlsListen = append(f.draft.tlsListen, address)
	} else {
		v.plain = true
		f.draft.listen = append(f.draft.listen, address)
	}
	if slices.Contains(d.args(), "proxy_protocol") {
		f.leave(d, "write proxy_protocol = true, which is for all addresses, and trust")
	}
}

// hosts returns a server's names, with their ports where another server has the same name on others.
func (f *nginxFile) hosts(v *server) []string {
	for _, o := range f.servers {
		if o == v || slices.Equal(o.ports, v.ports) || f.onlyToHTTPS(o) {
			continue
		}
		if len(v.names) > 0 && !slices.ContainsFunc(v.names, func(n string) bool { return slices.Contains(o.names, n) }) {
			continue
		}
		names, list := v.names, []string(nil)
		if len(names) == 0 {
			names = []string{"*"}
		}
		for _, n := range names {
			for _, p := range unique(v.ports) {
				if p != "" {
					list = append(list, n+":"+p)
				}
			}
		}
		return list
	}
	return v.names
}

// toHTTPS is the target of a redirect to the same URL with https.
var toHTTPS = regexp.MustCompile(`^https://(\$host|\$server_name|\$http_host|[a-zA-Z0-9.-]+)(:443)?\$request_uri$`) // read-only

// onlyToHTTPS reports whether a plain server does nothing but redirect to https.
func (f *nginxFile) onlyToHTTPS(v *server) bool {
	if v.secure {
		return false
	}
	redirects := false
	for i := range v.at.block {
		d := &v.at.block[i]
		list := []directive{*d}
		if d.name() == "location" {
			if strings.Contains(d.arg(0)+d.arg(1), "acme-challenge") { // the proxy answers it itself
				continue
			}
			list = d.block
		}
		for j := range list {
			switch e := &list[j]; e.name() {
			case "return":
				if !toHTTPS.MatchString(e.arg(1)) {
					return false
				}
				redirects = true
			case "if": // certbot's if ($host = name) { return 301 https://… }
				if len(e.block) != 1 || !toHTTPS.MatchString(e.block[0].arg(1)) {
					return false
				}
				redirects = true
			case "proxy_pass", "try_files", "alias", "fastcgi_pass", "uwsgi_pass":
				return false
			case "root": // without locations of its own, a server with a return serves none of it
				if d.name() == "location" {
					return false
				}
			}
		}
	}
	return redirects
}

// serve translates a server block.
func (f *nginxFile) serve(v *server) {
	if v.unnamed && len(v.names) == 0 { // it must not take the requests of all hosts
		f.leave(&v.at, "the server has no other name, and was left out")
		return
	}
	if f.onlyToHTTPS(v) {
		f.draft.redirect = true
		return
	}
	r := &site{errorPages: map[string]string{}}
	if len(v.names) > 0 {
		r.id = v.names[0]
	}
	f.draft.sites = append(f.draft.sites, r)
	var returns *directive
	pem, key := "", ""
	for i := range v.at.block {
		switch d := &v.at.block[i]; d.name() {
		case "server_name", "listen", "location":
		case "ssl_certificate":
			pem = d.arg(0)
		case "ssl_certificate_key":
			key = d.arg(0)
		case "ssl_client_certificate":
			f.draft.clientCA = d.arg(0)
		case "ssl_verify_client":
			f.draft.optionalCA = d.arg(0) == "optional"
		case "return":
			returns = d
		case "error_page":
			f.errorPage(r, d, &v.scope)
		default:
			f.setting(d, &v.scope)
		}
	}
	if pem != "" && key != "" {
		f.draft.certificates = append(f.draft.certificates, [2]string{pem, key})
	}
	hosts, whole := f.hosts(v), false
	for i := range v.at.block {
		d := &v.at.block[i]
		if d.name() != "location" || strings.HasPrefix(d.arg(0), "@") {
			continue
		}
		whole = whole || d.arg(0) == "/" && len(d.args()) == 1
		f.location(r, v, hosts, d)
	}
	switch {
	case returns != nil:
		p := &place{hosts: hosts}
		f.returns(p, returns)
		r.places = append(r.places, p)
	case !whole && v.scope.root != "":
		p := &place{hosts: hosts}
		f.finish(p, &v.scope)
		f.authRequest(p, v, &v.scope, &v.at)
		p.destinations = []*destination{{uri: files(v.scope.root, &v.scope, nil)}}
		r.places = append(r.places, p)
	}
}

// errorPage takes pages that are files of the server.
func (f *nginxFile) errorPage(r *site, d *directive, s *scope) {
	args := d.args()
	if len(args) < 2 {
		f.leave(d, "a status and a page are needed")
		return
	}
	page := args[len(args)-1]
	file := filepath.Join(s.root, page)
	if _, err := os.Stat(file); !strings.HasPrefix(page, "/") || s.root == "" || err != nil || strings.HasPrefix(args[len(args)-2], "=") {
		f.leave(d, "error_pages are files, which exist, for the proxy's own errors")
		return
	}
	for _, status := range args[:len(args)-1] {
		r.errorPages[status] = file
	}
}
