package race

import "fmt"

func ours(name string) Contestant {
	return Contestant{
		Name: name, Differs: "adds X-Forwarded-* always",
		render: func(s *Setup) (Configuration, bool) {
			uri := "http://" + s.Backend
			if s.Files {
				uri = "files://" + s.Dir + "/site"
			}
			text := fmt.Sprintf(`listen = [%q]
workers = %d
%s
[timeouts]
keep_alive = "1h"

[[locations]]
[[locations.destinations]]
uri = %q
idle_connections = 128
`, s.Listen, s.Workers, when(s.Forward, fmt.Sprintf("\n[log]\naccess = %q\n", s.Dir+"/access.log")), uri)
			return Configuration{File: "proxy.toml", Text: text,
				Command: "exec {program} proxy " + when(name == Prefork, "--prefork ") + s.Dir + "/proxy.toml"}, true
		},
	}
}
