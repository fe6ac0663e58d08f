package race

import (
	"fmt"
	"net"
	"regexp"
)

// haproxy logs to its standard output, line by line, which the shell leads into a
// file: it has no file of its own. By default it admits half as many clients as it
// may open files, since each may need a connection to a backend.
func haproxy() Contestant {
	return Contestant{
		Name: "haproxy", Program: "haproxy", Install: "apt-get install haproxy",
		Differs: "its log is not buffered: not supported",
		version: "-v", pattern: regexp.MustCompile(`(?i)haproxy version ([^ -]+)`),
		render: func(s *Setup) (Configuration, bool) {
			log := when(s.Forward, " >"+s.Dir+"/access.log")
			return Configuration{File: "haproxy.cfg", Text: haproxyText(s), Command: "exec {program} -db -f " + s.Dir + "/haproxy.cfg" + log},
				!s.Files
		},
	}
}

func haproxyText(s *Setup) string {
	return fmt.Sprintf(`global
  nbthread %[1]d
  maxconn 19000
  no strict-limits
%[2]sdefaults
  mode http
  timeout connect 2s
  timeout client 3600s
  timeout server 60s
frontend f
  bind %[3]s shards by-thread%[6]s
%[4]s  default_backend b
backend b
  http-reuse always
  server s %[5]s pool-max-conn 128
`, s.Workers, when(s.Forward, "  log stdout format raw local0\n"), s.Listen, when(s.Forward, `  log global
  capture request header Referer len 128
  capture request header User-Agent len 128
  log-format "%ci - - [%trl] %{+Q}r %ST %B %{+Q}[capture.req.hdr(0)] %{+Q}[capture.req.hdr(1)]"
  http-request set-header X-Forwarded-For %[src]
  http-request set-header X-Forwarded-Proto http
  http-request set-header X-Forwarded-Host %[req.hdr(host)]
`), s.Backend, when(s.TLS, " ssl crt "+s.Dir+"/"+pairFile+" alpn h2,http/1.1 ssl-min-ver TLSv1.3 curves X25519 ciphersuites TLS_AES_128_GCM_SHA256"))
}

func caddy() Contestant {
	return Contestant{
		Name: "caddy", Program: "caddy", Install: "apt-get install caddy, or a newer one from caddyserver.com",
		Differs: "adds X-Forwarded-* always; logs JSON, it has no other format",
		version: "version", pattern: regexp.MustCompile(`v?(\d\S+)`),
		render: func(s *Setup) (Configuration, bool) {
			host, port, err := net.SplitHostPort(s.Listen)
			handler := fmt.Sprintf("  reverse_proxy %s {\n    transport http {\n      keepalive_idle_conns_per_host 128\n      compression off\n    }\n  }\n", s.Backend)
			if s.Files {
				handler = fmt.Sprintf("  root * %s/site\n  file_server\n", s.Dir)
			}
			scheme, secure := "http", ""
			if s.TLS {
				scheme = "https"
				secure = fmt.Sprintf("  tls %[1]s/cert.pem %[1]s/key.pem {\n    protocols tls1.3 tls1.3\n    curves x25519\n  }\n", s.Dir)
			}
			text := fmt.Sprintf(`{
  admin off
  auto_https off
  storage file_system %[1]s/storage
}
%[6]s://:%[2]s {
  bind %[3]s
%[7]s%[4]s%[5]s}
`, s.Dir, port, host, when(s.Forward, "  log {\n    output file "+s.Dir+"/access.log {\n      roll_disabled\n    }\n  }\n"), handler, scheme, secure)
			return Configuration{File: "Caddyfile", Text: text,
					Command: fmt.Sprintf("HOME=%[1]s GOMAXPROCS=%[2]d exec {program} run --adapter caddyfile --config %[1]s/Caddyfile", s.Dir, s.Workers)},
				err == nil
		},
	}
}

func h2o() Contestant {
	return Contestant{
		Name: "h2o", Program: "h2o", Install: "apt-get install h2o",
		Lacks: []string{"X-Forwarded-Host"}, Differs: "adds Via, and X-Forwarded-* except Host, always; its log is not buffered",
		version: "--version", pattern: regexp.MustCompile(`h2o version (\S+)`),
		render: func(s *Setup) (Configuration, bool) {
			host, port, err := net.SplitHostPort(s.Listen)
			target := fmt.Sprintf("proxy.reverse.url: \"http://%s/\"", s.Backend)
			if s.Files {
				target = fmt.Sprintf("file.dir: %s/site", s.Dir)
			}
			text := fmt.Sprintf(`num-threads: %[1]d
max-connections: 19900
%[2]slisten:
  host: %[3]s
  port: %[4]s
%[6]shttp1-request-timeout: 3600
proxy.preserve-host: ON
proxy.timeout.keepalive: 60000
hosts:
  default:
    paths:
      "/":
        %[5]s
`, s.Workers, when(s.Forward, "access-log: "+s.Dir+"/access.log\n"), host, port, target,
				when(s.TLS, fmt.Sprintf("  ssl:\n    certificate-file: %[1]s/cert.pem\n    key-file: %[1]s/key.pem\n    minimum-version: TLSv1.3\n", s.Dir)))
			return Configuration{File: "h2o.yaml", Text: text, Command: "exec {program} -c " + s.Dir + "/h2o.yaml"}, err == nil
		},
	}
}

// Names of RoadSign as a contestant.
const (
	roadSignName    = "roadsign"
	roadSignPrefork = "roadsign --prefork"
)

// roadSign is a Go proxy and file server on fiber. Its settings and its one region
// stand in one file: it looks for settings.toml in its working directory, and reads
// every .toml below paths.configs as a region, passing over what it does not know.
// A location is found by the whole Host field. Traces are off: they are kept in a
// map that all connections write to at once, which ends the process.
func roadSign(name string) Contestant {
	return Contestant{
		Name: name, Program: "roadsign", Install: "build github.com/Solsynth/RoadSign, ./pkg/cmd, as roadsign",
		Lacks:   []string{"X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host"},
		Differs: "its log has other fields and is not buffered",
		render: func(s *Setup) (Configuration, bool) {
			uri := "http://" + s.Backend
			if s.Files {
				uri = "files://" + s.Dir + "/site"
			}
			text := fmt.Sprintf(`id = "race"

[hypertext]
ports = [%[1]q]

[hypertext.limitation]
max_body_size = 16_777_216
max_qps = -1

[telemetry]
request_logging = %[2]t
capture_traces = false

[performance]
prefork = %[3]t

[logging]
access = "%[4]s/unused.log"

[paths]
configs = "."

[security]
credential = "race"

[[locations]]
id = "all"
hosts = [%[1]q]
paths = ["/"]
[[locations.destinations]]
id = "one"
uri = %[5]q
`, s.Listen, s.Forward, name == roadSignPrefork, s.Dir, uri)
			return Configuration{File: "settings.toml", Text: text,
				Command: fmt.Sprintf("cd %[1]s && GOMAXPROCS=%[2]d exec {program} >%[3]s", s.Dir, s.Workers,
					when(s.Forward, s.Dir+"/access.log")+when(!s.Forward, "/dev/null"))}, !s.TLS
		},
	}
}
