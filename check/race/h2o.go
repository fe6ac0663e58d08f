package race

import (
	"fmt"
	"net"
	"regexp"
)

func h2o() Contestant {
	return Contestant{
		Name: "h2o", Program: "h2o", Install: "apt-get install h2o",
		Lacks: []string{"X-Forwarded-Host"}, Differs: "adds Via, and X-Forwarded-* but the host always; its log is not buffered",
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
http1-request-timeout: 3600
proxy.preserve-host: ON
proxy.timeout.keepalive: 60000
hosts:
  default:
    paths:
      "/":
        %[5]s
`, s.Workers, when(s.Forward, "access-log: "+s.Dir+"/access.log\n"), host, port, target)
			return Configuration{File: "h2o.yaml", Text: text, Command: "exec {program} -c " + s.Dir + "/h2o.yaml"}, err == nil
		},
	}
}
