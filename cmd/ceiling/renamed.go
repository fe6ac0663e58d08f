package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// renamedVerbs maps the former name of a verb to what to type now; both work.
func renamedVerbs() map[string][]string {
	return map[string][]string{"open": {"report", "--open"}, "watch": {"show", "--live"}, "calibrate": {"doctor", "--calibrate"},
		"resume": {"run", "--resume"}, "controller": {"fleet", "controller"}, "agent": {"fleet", "agent"}}
}

// renameVerb replaces the former name of a verb, and prints the new one.
func renameVerb(args []string, stderr io.Writer) []string {
	at := 0
	if len(args) > 1 && args[0] == "help" {
		at = 1
	}
	if len(args) == 0 {
		return args
	}
	now, is := renamedVerbs()[args[at]]
	if !is {
		return args
	}
	// A failed message is no reason to stop.
	fmt.Fprintf(stderr, "ceiling: ceiling %s is now ceiling %s\n", args[at], strings.Join(now, " "))
	if at == 1 {
		now = slices.DeleteFunc(now, func(word string) bool { return strings.HasPrefix(word, "-") }) // help takes verbs
	}
	return slices.Concat(args[:at], now, args[at+1:])
}
