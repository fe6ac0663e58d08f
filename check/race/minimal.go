package race

import "fmt"

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
		if s.Files {
			return Configuration{Command: command + " --files " + s.Dir + "/site"}, true
		}
		command += " --backend " + s.Backend
		return Configuration{Command: command + when(s.Forward, " --forward --access-log "+s.Dir+"/access.log")}, true
	}
}
