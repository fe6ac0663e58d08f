package race

import (
	"fmt"
	"regexp"
)

// haproxy logs to its standard output, line by line, which the shell leads into a
// file: it has no file of its own. By default it admits half as many clients as it
// may open files, since each may need a connection to a backend.
func haproxy() Contestant {
	return Contestant{
		Name: "haproxy", Program: "haproxy", Install: "apt-get install haproxy",
		Differs: "its log is not buffered: it has no way to",
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
  bind %[3]s shards by-thread
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
`), s.Backend)
}
