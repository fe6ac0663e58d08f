package interop

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// Ways to ask a server. Each has a TCP port of its own where the server needs that.
const (
	plain = iota // HTTP/1.1 without TLS
	h2c          // HTTP/2 without TLS, by prior knowledge
	tls13        // TLS 1.3 alone: HTTP/1.1 or HTTP/2 by ALPN
	tls12        // TLS 1.2 alone: HTTP/1.1 or HTTP/2 by ALPN
	places
)

// server is one that others wrote. It answers /small and /large with the files of
// these names in the directory site, and anything else with 404, whatever the method,
// and writes a line for each request to the file log.
type server struct {
	name    string
	program string // in PATH, in /usr/sbin, or in the directory of tools.sh
	// setup writes the configuration and answers the program's arguments.
	setup func(t *testing.T, s *site) []string
	// requests to be sent to it where speed does not matter: its own is the limit.
	requests uint64
	// post is the status of a POST to a file.
	post int
	// any12: TLS 1.2 cannot be had alone, so its place is not asked.
	any12 bool
	// pipelined, if set, is what it does with requests that are pipelined at a place,
	// so that some fail: they are counted all the same.
	pipelined func(place int) lossy
}

// lossy is how a server loses pipelined requests; the zero value: it does not.
type lossy uint8

const (
	answersAll lossy = iota
	closesEarly
	stalls
)

// servers are all that can be had from Debian, PyPI, Maven Central and the Go proxy.
func servers() []server {
	return []server{
		{name: "nginx", program: "nginx", setup: nginx, requests: 1000, post: 405},
		{name: "haproxy", program: "haproxy", setup: haproxy, requests: 1000, post: 200},
		{name: "h2o", program: "h2o", setup: h2o, requests: 1000, post: 405, any12: true},
		{name: "caddy", program: "caddy", setup: caddy, requests: 1000, post: 200},
		// Envoy 1.40 reads two of a few direct responses that are pipelined, and the next
		// with the next packet.
		{name: "envoy", program: "envoy", setup: envoy, requests: 1000, post: 200, pipelined: func(int) lossy { return stalls }},
		// Node 20 closes a connection with TLS when several long answers are pipelined.
		{name: "node", program: "node", setup: node, requests: 1000, post: 200, pipelined: func(place int) lossy {
			if place == plain {
				return answersAll
			}
			return closesEarly
		}},
		{name: "hypercorn", program: "python3", setup: hypercorn, requests: 200, post: 200},
		{name: "jetty", program: "java", setup: jetty, requests: 500, post: 200},
		{name: "net/http", requests: 1000, post: 200}, // in the test's own process: netHTTP
	}
}

func nginx(t *testing.T, s *site) []string {
	user := ""
	if os.Getuid() == 0 {
		user = "user root;" // who else could not read the directory
	}
	listen := func(place int, lines string) string {
		return fmt.Sprintf("server { listen 127.0.0.1:%d %s location / { root %s/site; } }\n",
			s.ports[place], lines, s.dir)
	}
	pair := fmt.Sprintf("ssl http2; ssl_certificate %[1]s/cert.pem; ssl_certificate_key %[1]s/key.pem;", s.dir)
	s.write(t, "nginx.conf", fmt.Sprintf(`daemon off; worker_processes 2; pid %[1]s/pid; error_log %[1]s/errors; %[2]s
events { worker_connections 100; }
http { access_log %[1]s/log; keepalive_requests 100; client_body_temp_path %[1]s; proxy_temp_path %[1]s; fastcgi_temp_path %[1]s;
uwsgi_temp_path %[1]s; scgi_temp_path %[1]s;
%[3]s}
`, s.dir, user, listen(plain, ";")+listen(h2c, "http2;")+listen(tls13, pair+" ssl_protocols TLSv1.3;")+listen(tls12, pair+" ssl_protocols TLSv1.2;")))
	return []string{"-p", s.dir, "-c", s.dir + "/nginx.conf", "-e", "stderr"}
}

func haproxy(t *testing.T, s *site) []string {
	s.write(t, "pair.pem", s.read(t, "cert.pem")+s.read(t, "key.pem"))
	bind := func(place int, more string) string {
		return fmt.Sprintf("  bind 127.0.0.1:%d %s\n", s.ports[place], more)
	}
	pair := "ssl crt " + s.dir + "/pair.pem alpn h2,http/1.1 "
	s.write(t, "haproxy.cfg", fmt.Sprintf(`global
  nbthread 1 # of two one drops lines while the other writes
  tune.bufsize 131072
  log stdout format raw local0
defaults
  mode http
  log global
  option http-buffer-request
  option dontlognull
  timeout connect 2s
  timeout client 20s
  timeout server 20s
frontend f
%s  log-format "%%{+Q}r %%ST"
  http-request return status 200 content-type text/plain file %[2]s/site/small if { path /small }
  http-request return status 200 content-type text/plain file %[2]s/site/large if { path /large }
  http-request return status 404
`, bind(plain, "")+bind(h2c, "")+bind(tls13, pair+"ssl-min-ver TLSv1.3")+bind(tls12, pair+"ssl-max-ver TLSv1.2"), s.dir))
	return []string{"-db", "-f", s.dir + "/haproxy.cfg"}
}

func h2o(t *testing.T, s *site) []string {
	listen := func(place int, more string) string {
		return fmt.Sprintf("listen:\n  host: 127.0.0.1\n  port: %d\n%s", s.ports[place], more)
	}
	pair := func(lines string) string {
		return fmt.Sprintf("  ssl:\n    certificate-file: %[1]s/cert.pem\n    key-file: %[1]s/key.pem\n%[2]s", s.dir, lines)
	}
	user := ""
	if os.Getuid() == 0 {
		user = "user: root\n" // who else could not read the directory
	}
	s.write(t, "h2o.yaml", user+fmt.Sprintf(`num-threads: 2
access-log: %[1]s/log
%[2]shosts:
  default:
    paths:
      "/":
        file.dir: %[1]s/site
`, s.dir, listen(plain, "")+listen(h2c, "")+listen(tls13, pair("    minimum-version: TLSv1.3\n"))+listen(tls12, pair(""))))
	return []string{"-c", s.dir + "/h2o.yaml"}
}

func caddy(t *testing.T, s *site) []string {
	place := func(scheme string, place int, more string) string {
		return fmt.Sprintf(`%[1]s://127.0.0.1:%[2]d, %[1]s://localhost:%[2]d {
  bind 127.0.0.1
%[3]s  log {
    output file %[4]s/log {
      roll_disabled
    }
  }
  root * %[4]s/site
  file_server
}
`, scheme, s.ports[place], more, s.dir)
	}
	pair := fmt.Sprintf("  tls %[1]s/cert.pem %[1]s/key.pem {\n    protocols %%[1]s %%[1]s\n  }\n", s.dir)
	s.write(t, "Caddyfile", fmt.Sprintf(`{
  admin off
  auto_https off
  storage file_system %s/storage
  servers {
    protocols h1 h2 h2c
  }
}
`, s.dir)+place("http", plain, "")+place("http", h2c, "")+place("https", tls13, fmt.Sprintf(pair, "tls1.3"))+
		place("https", tls12, fmt.Sprintf(pair, "tls1.2")))
	return []string{"run", "--adapter", "caddyfile", "--config", s.dir + "/Caddyfile"}
}

func envoy(t *testing.T, s *site) []string {
	s.write(t, "envoy.yaml", "static_resources:\n  listeners:\n"+
		s.envoyListener(plain, "AUTO", "")+s.envoyListener(h2c, "HTTP2", "")+
		s.envoyListener(tls13, "AUTO", s.envoyTLS("TLSv1_3"))+s.envoyListener(tls12, "AUTO", s.envoyTLS("TLSv1_2")))
	return []string{"--concurrency", "2", "--use-dynamic-base-id", "--file-flush-interval-msec", "10", "--log-level", "error", "-c", s.dir + "/envoy.yaml"}
}

func (s *site) envoyListener(place int, codec, socket string) string {
	path := func(status int, path string) string {
		return fmt.Sprintf("              - match: {path: %q}\n                direct_response: {status: %d, body: {filename: %q}}\n", path, status, s.dir+"/site"+path)
	}
	return fmt.Sprintf(`  - address: {socket_address: {address: 127.0.0.1, port_value: %d, protocol: TCP}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: s
          codec_type: %s
          access_log:
          - name: envoy.access_loggers.file
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog
              path: %s/log
              log_format: {text_format_source: {inline_string: "%%REQ(:METHOD)%% %%REQ(:PATH)%% %%RESPONSE_CODE%%\n"}}
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
          route_config:
            max_direct_response_body_size_bytes: 1000000
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes:
%s              - match: {prefix: "/"}
                direct_response: {status: 404}
%s`, s.ports[place], codec, s.dir, path(200, "/small")+path(200, "/large"), socket)
}

func (s *site) envoyTLS(version string) string {
	return fmt.Sprintf(`      transport_socket:
        name: s
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext
          common_tls_context:
            alpn_protocols: [h2, http/1.1]
            tls_params: {tls_minimum_protocol_version: %[2]s, tls_maximum_protocol_version: %[2]s}
            tls_certificates: [{certificate_chain: {filename: %[1]s/cert.pem}, private_key: {filename: %[1]s/key.pem}}]
`, s.dir, version)
}

func node(t *testing.T, s *site) []string {
	return append([]string{testdata(t, "server.js"), s.dir}, s.numbers()...)
}

func hypercorn(t *testing.T, s *site) []string {
	return append([]string{testdata(t, "server.py"), s.dir}, s.numbers()...)
}

func jetty(t *testing.T, s *site) []string {
	return append([]string{"-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp", filepath.Join(s.tools, "jetty", "*"), testdata(t, "Jetty.java"), s.dir}, s.numbers()...)
}

// netHTTP answers as the others do.
func netHTTP(s *site, count func()) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		count()
		body, err := os.ReadFile(filepath.Join(s.dir, "site", filepath.Base(r.URL.Path)))
		if err != nil {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = w.Write(body) // the client may be gone
	})
}

func testdata(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}
