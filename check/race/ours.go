package race

import (
	"fmt"
)

func ours(name string) Contestant {
	return Contestant{
		Name: name, Differs: "adds X-Forwarded-* always",
		render: func(s *Setup) (Configuration, bool) {
			uri := "http://" + s.Backend
			if s.Files {
				uri = "files://" + s.Dir + "/site"
			}
			text := fmt.Sprintf(`%sworkers = %d
%s
[timeouts]
keep_alive = "1h"

[[locations]]
[[locations.destinations]]
uri = %q
idle_connections = 128
`, when(!s.TLS, fmt.Sprintf("listen = [%q]\n", s.Listen)), s.Workers, when(s.Forward, fmt.Sprintf("\n[log]\naccess = %q\n", s.Dir+"/access.log"))+when(s.TLS, oursTLS(s)), uri)
			return Configuration{File: "proxy.toml", Text: text,
				Command: "exec {program} proxy " + when(name == Prefork, "--prefork ") + s.Dir + "/proxy.toml"}, true
		},
	}
}

func oursTLS(s *Setup) string {
	return fmt.Sprintf("\n[tls]\nlisten = [%q]\n\n[[tls.certificates]]\npem = %q\nkey = %q\n", s.Listen, s.Dir+"/"+certificateFile, s.Dir+"/"+keyFile)
}

// The two minimal proxies are this program's own, in check/race/baseline: what a Go program
// costs that does no more than it is raced for.

func fastHTTP() Contestant {
	return Contestant{Name: "fasthttp", builtWith: "github.com/valyala/fasthttp", render: baselineCommand("fasthttp")}
}

func httpUtil() Contestant {
	return Contestant{Name: "httputil", builtWith: "std", render: baselineCommand("httputil")}
}

func baselineCommand(kind string) func(s *Setup) (Configuration, bool) {
	return func(s *Setup) (Configuration, bool) {
		command := fmt.Sprintf("exec {program} baseline %s --addr %s --workers %d", kind, s.Listen, s.Workers)
		switch {
		case s.TLS:
			return Configuration{}, false
		case s.Files:
			return Configuration{Command: command + " --files " + s.Dir + "/site"}, true
		}
		command += " --backend " + s.Backend
		return Configuration{Command: command + when(s.Forward, " --forward --access-log "+s.Dir+"/access.log")}, true
	}
}
