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

// Every slip that can be foreseen is answered with what to type instead.

// otherVerbs are verbs that other tools have, or that a reader of the docs expects, with
// the command that does it here. URL is where the person's own goes.
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

// otherFlags are flags of other tools, with the one that does it here.
func otherFlags() map[string]string {
	return map[string]string{
		"concurrency": "connections", "clients": "connections", "vus": "connections", "qps": "rate", "rps": "rate", "number": "requests",
		"time": "duration", "data": "body", "workers": "threads", "output": "out", "file": "out", "pipeline": "pipelining",
		"disable-keepalive": "new-connections", "cpus": "pin-generator", "headers": "header",
	}
}

// unknownVerb says what to type in place of a verb that there is not, nil where err is
// about something else.
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

// unknownFlag says likewise which flag may have been meant.
func unknownFlag(c *cobra.Command, err error) error {
	hint := ""
	if name, is := strings.CutPrefix(err.Error(), "unknown flag: --"); is {
		if meant := nearestFlag(c.Flags(), name); meant != "" {
			hint = "; did you mean --" + meant + "?"
		}
	}
	return usage(fmt.Errorf("%w%s; see: %s --help", err, hint, c.CommandPath()))
}

// nearestFlag is the flag that is spelled most like a name, "" where none is.
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

// distance is Levenshtein's: how many letters are put in, left out or replaced.
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
