// Package shell writes words as one types them in a shell.
package shell

import "strings"

// Line joins words to a command line, quoted where a shell would read them as something else.
func Line(words []string) string {
	var out []string
	for _, w := range words {
		if w == "" || strings.ContainsAny(w, " \t\n'\"\\$&|;<>()*?[]{}~#`!") {
			w = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		out = append(out, w)
	}
	return strings.Join(out, " ")
}
