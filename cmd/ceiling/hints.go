package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Foreseeable mistakes get an answer with the command to type instead.

// otherVerbs maps verbs of other tools, or that a reader of the docs may expect, to the command
// here. URL is replaced with the user's own.
func otherVerbs() map[string]string {
	return map[string]string{
		"sweep": "ceiling run -c 1,2,4,8 URL", "ramp": "ceiling run -R 1k:5k URL", "bench": "ceiling run URL", "benchmark": "ceiling run URL",
		"load": "ceiling run URL", "test": "ceiling run URL", "measure": "ceiling run URL", "attack": "ceiling run -R 1k URL",
		"search": "ceiling find --slo 'p99<5ms' URL", "max": "ceiling find --slo 'p99<5ms' URL", "diff": "ceiling compare A B",
		"ls": "ceiling list", "history": "ceiling list", "runs": "ceiling list", "view": "ceiling show ID", "cat": "ceiling show ID",
		"live": "ceiling watch ID", "check": "ceiling doctor URL", "server": "ceiling serve fasthttp --addr 127.0.0.1:8080",
		"version": "ceiling --version",
	}
}

// otherFlags maps flags of other tools to ours.
func otherFlags() map[string]string {
	return map[string]string{
		"concurrency": "connections", "clients": "connections", "vus": "connections", "qps": "rate", "rps": "rate", "number": "requests",
		"time": "duration", "data": "body", "workers": "threads", "output": "out", "file": "out", "pipeline": "pipelining",
		"disable-keepalive": "new-connections", "cpus": "pin-generator", "headers": "header",
	}
}

// unknownVerb suggests a command for an unknown verb; nil if err is about something else.
func unknownVerb(root *cobra.Command, args []string, err error) error {
	found := regexp.MustCompile(`^unknown command "([^"]*)"`).FindStringSubmatch(err.Error())
	if found == nil {
		return nil
	}
	name := found[1]
	if command := otherVerbs()[name]; command != "" {
		if i := slices.IndexFunc(args, isURL); i >= 0 {
			command = strings.Replace(command, "URL", args[i], 1)
		}
		return usage(fmt.Errorf("unknown command %q; type: %s", name, command))
	}
	near := root.SuggestionsFor(name)
	for i := range near {
		near[i] = "ceiling " + near[i]
	}
	if len(near) == 0 {
		return usage(fmt.Errorf("unknown command %q; see: ceiling --help", name))
	}
	return usage(fmt.Errorf("unknown command %q; did you mean %s?", name, strings.Join(near, " or ")))
}

// unknownFlag suggests the flag that may have been meant.
func unknownFlag(c *cobra.Command, err error) error {
	hint := ""
	if name, is := strings.CutPrefix(err.Error(), "unknown flag: --"); is {
		if meant := nearestFlag(c.Flags(), name); meant != "" {
			hint = "; did you mean --" + meant + "?"
		}
	}
	return usage(fmt.Errorf("%w%s; see: %s --help", err, hint, c.CommandPath()))
}

// nearestFlag returns the flag with the most similar name, "" if none is similar.
func nearestFlag(flags *pflag.FlagSet, name string) string {
	if meant := otherFlags()[name]; meant != "" && flags.Lookup(meant) != nil {
		return meant
	}
	far := map[string]int{}
	flags.VisitAll(func(f *pflag.Flag) {
		if d := distance(f.Name, name); !f.Hidden && (d <= 2 && d < len(name) || len(name) > 2 && strings.HasPrefix(f.Name, name)) {
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

// distance is the Levenshtein distance.
func distance(a, b string) int {
	above := make([]int, len(b)+1)
	for j := range above {
		above[j] = j
	}
	for i := range len(a) {
		corner := above[0]
		above[0]++
		for j := range len(b) {
			replaced := corner
			if a[i] != b[j] {
				replaced++
			}
			corner = above[j+1]
			above[j+1] = min(above[j]+1, above[j+1]+1, replaced)
		}
	}
	return above[len(b)]
}
