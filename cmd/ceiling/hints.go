package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"ceiling/cmd/internal/command"

	"github.com/spf13/cobra"
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
		"hey":        "ceiling run -c 50 -n 200 URL; its -z is -d, its -d is -b, and its -q times -c is -R",
		"ab":         "ceiling run -c 1 -n 1 --new-connections URL; its -t is -d, its -p is -b @FILE, and with its -k leave out --new-connections",
		"oha":        "ceiling run -c 50 -n 200 URL; its -z is -d, its -d is -b, and its -q is -R",
		"bombardier": "ceiling run -c 125 URL; its -r is -R, and its -a is --new-connections",
		"h2load":     "ceiling run --http 2 -c 1 -n 1 URL; its -D is -d, its -m is -p, and its --rps times -c is -R",
		"k6":         "ceiling run -c 1 URL; its --vus is -c, its --iterations is -n, and its --rps is -R",
		"live":       "ceiling show --live ID", "check": "ceiling doctor URL", "server": "ceiling serve fasthttp --addr 127.0.0.1:8080",
	}
}

// unknownVerb suggests a command for an unknown verb; nil if err is about something else.
func unknownVerb(root *cobra.Command, args []string, err error) error {
	found := regexp.MustCompile(`^unknown command "([^"]*)"`).FindStringSubmatch(err.Error())
	if found == nil {
		return nil
	}
	name := found[1]
	if err := notURL(name); err != nil {
		return command.Usage(err)
	}
	if typed := otherVerbs()[name]; typed != "" {
		if i := slices.IndexFunc(args, isURL); i >= 0 {
			typed = strings.Replace(typed, "URL", args[i], 1)
		}
		for _, flag := range []string{"-c", "-n"} { // mean the same there
			if i := slices.Index(args, flag); i >= 0 && i < len(args)-1 {
				typed = regexp.MustCompile(flag+` \d+`).ReplaceAllLiteralString(typed, flag+" "+args[i+1])
			}
		}
		return command.Usage(fmt.Errorf("unknown command %q; type: %s", name, typed))
	}
	near := root.SuggestionsFor(name)
	for i := range near {
		near[i] = "ceiling " + near[i]
	}
	if len(near) == 0 {
		return command.Usage(fmt.Errorf("unknown command %q; see: ceiling --help", name))
	}
	return command.Usage(fmt.Errorf("unknown command %q; did you mean %s?", name, strings.Join(near, " or ")))
}
