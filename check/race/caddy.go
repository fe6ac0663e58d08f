package race

import (
	"fmt"
	"net"
	"regexp"
)

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
			text := fmt.Sprintf(`{
  admin off
  auto_https off
  persist_config off
  storage file_system %[1]s/storage
}
http://:%[2]s {
  bind %[3]s
%[4]s%[5]s}
`, s.Dir, port, host, when(s.Forward, "  log {\n    output file "+s.Dir+"/access.log {\n      roll_disabled\n    }\n  }\n"), handler)
			return Configuration{File: "Caddyfile", Text: text,
					Command: fmt.Sprintf("HOME=%[1]s GOMAXPROCS=%[2]d exec {program} run --adapter caddyfile --config %[1]s/Caddyfile", s.Dir, s.Workers)},
				err == nil
		},
	}
}
