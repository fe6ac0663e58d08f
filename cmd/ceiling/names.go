package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"ceiling/record"
)

// Names that are given in the wrong place: a file in place of a URL, a format in place of a file.

// notURL refuses a file where a URL is wanted: without this it would be looked up as a host. nil if
// the text may be a URL.
func notURL(text string) error {
	name, _, _ := strings.Cut(text, "?")
	if strings.Contains(text, "://") {
		return nil
	}
	info, err := os.Stat(text)
	there := err == nil && info.Mode().IsRegular()
	ext := strings.ToLower(filepath.Ext(strings.TrimSuffix(name, ".gz")))
	advice := otherFiles()[ext]
	switch {
	case there && record.IsRecord(text):
		advice = "is a saved run; show it: ceiling show " + text
	case advice == "" && there:
		advice = "is a file; give the URL of a server, --targets FILE for requests, or an experiment in FILE.yaml"
	case advice == "" || strings.Contains(name, ":"), strings.Contains(name, "/") && !strings.HasPrefix(name, "/") && !strings.HasPrefix(name, "."):
		return nil // a path on a host
	}
	return fmt.Errorf("%s %s", text, strings.ReplaceAll(advice, "FILE", text))
}

// otherFiles maps extensions that no host name ends in to what such a file is, and what to do
// instead. A host can end in .py: a script of Locust is only known by being there.
func otherFiles() map[string]string {
	const (
		noScript = "ceiling runs no scripts: give the URL with -m, -H and -b, several requests with --targets, several loads in an experiment (docs/experiments.md)"
		script   = "is a script, as k6 and autocannon have them; " + noScript
		saved    = "is not a URL; for a saved run: ceiling show FILE"
		plan     = "is an experiment; run it: ceiling run FILE"
		requests = "is a file; for the requests in it: ceiling run --targets FILE"
	)
	return map[string]string{
		".js": script, ".mjs": script, ".cjs": script, ".ts": script, ".lua": "is a script like wrk's; run it: --lua FILE URL",
		".scala": "is a simulation like Gatling's; " + noScript, ".jmx": "is a test plan like JMeter's; " + noScript,
		".har": "is a browser's recording; for the requests in it: ceiling run --targets FILE",
		".csv": "is a file; to fill in requests with its rows: --feed FILE URL", ".log": "is a file; for the requests of an access log: --targets FILE URL",
		".txt": requests, ".yaml": plan, ".yml": plan, ".ndjson": saved,
		".json": "is a file; for another tool's result: ceiling judge FILE; for requests, one JSON object a line: ceiling run --targets FILE",
		".toml": "is a file; for a configuration of the proxy: ceiling proxy FILE",
	}
}

// withVerb makes "ceiling URL" equivalent to "ceiling run URL".
func withVerb(args []string) []string {
	// Other tools put flags before the URL; ours never precede a verb.
	flagsFirst := len(args) > 1 && len(args[0]) > 1 && args[0][0] == '-' &&
		slices.ContainsFunc(args, func(arg string) bool { return isURL(arg) && strings.Contains(arg, "://") })
	if len(args) == 0 || !isURL(args[0]) && !flagsFirst {
		return args
	}
	return append([]string{"run"}, args...)
}

// isURL distinguishes a target from a verb: no verb contains one of these.
func isURL(arg string) bool {
	return !strings.HasPrefix(arg, "-") && strings.ContainsAny(arg, ":/")
}
