package command

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ceiling/internal/text"
)

// Foreseeable mistakes get an answer with the command to type instead.

// Theirs maps flags of other tools (curl, wrk, hey, vegeta, ab, oha, bombardier, h2load, k6), without
// dashes, to what they are for a measuring verb, which does not have them: a flag, a letter of this
// table that has the answer, or the answer.
func Theirs() map[string]string {
	return map[string]string{
		"concurrency": "--connections", "clients": "--connections", "vus": "--connections", "qps": "--rate", "rps": "--rate", "stage": "--rate",
		"number": "--requests", "iterations": "--requests", "time": "--duration", "max-time": "--duration", "workers": "--threads",
		"output": "--out", "file": "--out", "log-file": "--out", "summary-export": "--json", "web": "--live", "silent": "--quiet", "no-tui": "no screen is drawn; remove it",
		"pipeline": "--pipelining", "streams": "--pipelining", "max-concurrent-streams": "--pipelining",
		"disable-keepalive": "--new-connections", "disableKeepAlives": "--new-connections", "no-connection-reuse": "--new-connections",
		"cpus": "--pin-generator", "local-ips": "--source-ips", "unix-socket": "--unix", "connect-to": "--resolve",
		"data": "--body", "data-binary": "--body", "data-raw": "--body", "body-file": "--body", "request": "--method",
		"headers": "--header", "user-agent": "--header", "cookie": "--header", "content-type": "--header",
		"basic-auth": "--user", "host": "the field Host is -H 'Host: NAME'; an address for a name is --resolve", "input-file": "--targets", "urls-from-file": "--targets",
		"connect-timeout": "--timeout", "connection-inactivity-timeout": "--timeout", "warm-up-time": "--warmup", "rampup": "--connect-ramp",
		"http1": "--http", "http2": "--http", "h1": "--http", "h2": "--http", "http-version": "--http",
		"root-certs": "--cacert", "tls-skip-verify": "--insecure", "skip-verify": "--insecure", "insecure-skip-tls-verify": "--insecure",
		"groups": "--curves", "thresholds": "--slo", "dry": "--dry-run",

		"latency": "-L", "latencies": "-L", "follow": "-L", "redirect": "-L", "redirects": "-L", "max-redirects": "-L", "script": "-s",
		"keepalive": "-k", "keep-alive": "-k", "head": "-I", "include": "-i", "fail": "-f", "form": "-F", "get": "-G", "referer": "-e",
		"show-error": "-S",

		"k": "curl's -k is --insecure; connections are kept alive without ab's -k (or not, with --new-connections)",
		"q": "hey's -q is -R, the rate of all connections together; curl's is --quiet",
		"X": "curl's -X is -m, as in -m POST",
		"L": "wrk's -L needs no flag, latency is always measured; curl's -L is --location",
		"U": "a proxy's user is in its URL: --proxy http://USER:PASSWORD@HOST:PORT; the server's is -u",
		"a": "hey's -a is -u",
		"s": "curl's -s is --quiet, ab's -s is --timeout; scripts, wrk's -s, are --lua",
		"T": "a content type is a header field: -H 'Content-Type: application/json'; wrk's -T is --timeout",
		"A": "curl's -A is a header field, -H 'User-Agent: NAME'; hey's is -H 'Accept: TYPE'",
		"D": "hey's -D is -b, as in -b @FILE; h2load's is -d; curl's -D, the response's header, is not saved",
		"C": "a cookie is a header field: -H 'Cookie: NAME=VALUE'",
		"e": "curl's -e is a header field: -H 'Referer: URL'",
		"I": "curl's -I is -m HEAD", "i": "ab's -i is -m HEAD; curl's -i, the response's header, is not printed",
		"P": "a proxy's password is in its URL: --proxy http://USER:PASSWORD@HOST:PORT",
		"f": "curl's -f is --expect 2xx, and statuses from 400 on count as errors without it; locust's file is not read: give the URL",
		"F": "forms are not written: give the body with -b @FILE and its type with -H 'Content-Type: TYPE'",
		"G": "give the query in the URL, as in 'http://HOST/path?a=b'",
		"S": "errors are always printed", "V": "the version is printed by: ceiling version",
		"w": "ab's -w and curl's -w are --json; hey's and vegeta's workers are -c (connections) or -t (threads)",
		"r": "a run continues after errors without ab's -r; hatch rates are --connect-ramp, and request rates -R",
		"j": "a JSON document is printed with --json", "g": "ab's -g is ceiling export ID --format csv",
		"l": "responses may differ in length without ab's -l", "B": "the body is -b, as in -b @FILE",
	}
}

// ours returns the flag that one of another tool is here; "" if there is none of the same meaning.
func ours(flags *pflag.FlagSet, name string) string {
	meant, is := strings.CutPrefix(Theirs()[name], "--")
	if !is || flags.Lookup(meant) == nil {
		return ""
	}
	return meant
}

// unknownFlag suggests the flag that may have been meant.
func unknownFlag(c *cobra.Command, err error) error {
	hint, name := "", ""
	if found := regexp.MustCompile(`^unknown shorthand flag: '(.)' in -`).FindStringSubmatch(err.Error()); found != nil {
		name = found[1]
	}
	if found := regexp.MustCompile(`^invalid argument ("[^"]*") for "([^"]*)" flag: strconv\.ParseBool`).FindStringSubmatch(err.Error()); found != nil {
		err = fmt.Errorf("%s takes no value, got %s", found[2], found[1])
	}
	if long, is := strings.CutPrefix(err.Error(), "unknown flag: --"); is {
		name = long
		if meant := nearestFlag(c.Flags(), name); meant != "" {
			hint = "; did you mean --" + meant + "?"
		}
	}
	says := Theirs()[name]
	if len(says) == 2 {
		says = Theirs()[says[1:]]
	}
	if says != "" && !strings.HasPrefix(says, "--") && c.Flags().Lookup("connections") != nil {
		hint = "; " + says
	}
	return Usage(fmt.Errorf("%w%s; see: %s --help", err, hint, c.CommandPath()))
}

// SingleDash refuses a long flag with one dash, as Go's own tools write it: -rate=50 would be read
// as -r -a -t, and -duration=10s as -d uration=10s.
func SingleDash(root *cobra.Command, args []string) error {
	c, rest, err := root.Find(args)
	if err != nil || c.DisableFlagParsing {
		return nil // the error comes up again
	}
	for _, arg := range rest {
		if arg == "--" {
			return nil
		}
		name, value, valued := strings.Cut(strings.TrimPrefix(arg, "-"), "=")
		if len(name) < 3 || !strings.HasPrefix(arg, "-") || strings.HasPrefix(arg, "--") {
			continue
		}
		meant := name
		if c.Flags().Lookup(name) == nil {
			meant = ours(c.Flags(), name)
		}
		if meant == "" {
			continue
		}
		if valued {
			meant += "=" + value
		}
		return Usage(fmt.Errorf("%s: a flag of more than one letter has two dashes: --%s; see: %s --help", arg, meant, c.CommandPath()))
	}
	return nil
}

// nearestFlag returns the flag with the most similar name, "" if none is similar.
func nearestFlag(flags *pflag.FlagSet, name string) string {
	if meant := ours(flags, name); meant != "" {
		return meant
	}
	far := map[string]int{}
	flags.VisitAll(func(f *pflag.Flag) {
		if d := text.Distance(f.Name, name); !f.Hidden && (d <= 2 && d < len(name) || len(name) > 2 && strings.HasPrefix(f.Name, name)) {
			far[f.Name] = d
		}
	})
	names := slices.SortedFunc(maps.Keys(far), func(a, b string) int {
		if far[a] != far[b] {
			return far[a] - far[b]
		}
		return strings.Compare(a, b)
	})
	if len(names) == 0 {
		return ""
	}
	return names[0]
}

// NotFormat refuses the name of a format where the record's file or directory is named: "-o json"
// would make a directory. A directory that is there, and ./json, are meant.
func NotFormat(flag, path string) error {
	base := filepath.Base(path)
	format := strings.ToLower(strings.TrimPrefix(filepath.Ext(base), "."))
	bare := format == "" && base == path
	if bare {
		format = strings.ToLower(base)
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil
	}
	advice := ""
	switch {
	case format == "ndjson" && !bare:
		return nil
	case format == "json":
		advice = "for the result as JSON give --json, and redirect it: --json > result.json"
	case slices.Contains([]string{"html", "htm", "md", "markdown", "pdf"}, format):
		advice = "for a page: ceiling report ID -o report.html"
	case slices.Contains([]string{"text", "txt", "table", "stdout", "yaml", "yml", "xml", "junit"}, format):
		advice = "the result is text on the standard output, which can be redirected: > result.txt; or JSON with --json"
	case slices.Contains(Exports(), format):
		advice = "for another format: ceiling export ID --format " + format
	default:
		return nil
	}
	if bare {
		advice += "; for a directory of that name: ./" + base
	}
	return fmt.Errorf("%s %s: that is a format, and %[1]s names the file (NAME.ndjson.gz) or directory to save to; %[3]s", flag, path, advice)
}

// Exports are the formats of package show/export, which not every program links.
func Exports() []string {
	return []string{"json", "ndjson", "csv", "hgrm", "prometheus", "pprof", "folded"}
}
