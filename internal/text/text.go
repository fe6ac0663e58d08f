// Package text shapes words for a person: on one line, quoted, as one types them, and which name was
// meant.
package text

import (
	"strconv"
	"strings"
)

// Shell joins words to a command line, quoted where a shell would read them as something else.
func Shell(words []string) string {
	var out []string
	for _, w := range words {
		out = append(out, Word(w))
	}
	return strings.Join(out, " ")
}

// Word quotes one word for a shell.
func Word(w string) string {
	if w == "" || strings.ContainsAny(w, " \t\n'\"\\$&|;<>()*?[]{}~#`!^") {
		return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return w
}

// Line joins the words of a text of any number of lines with one space each.
func Line(s string) string { return strings.Join(strings.Fields(s), " ") }

// FirstLine returns a text up to its first newline.
func FirstLine(s string) string {
	first, _, _ := strings.Cut(s, "\n")
	return first
}

// Quote quotes s for an error message, shortened to fit a line.
func Quote(s string) string {
	const most = 40
	if len(s) > most {
		return strconv.Quote(strings.ToValidUTF8(s[:most], "?")) + "…"
	}
	return strconv.Quote(s)
}

// Distance is Levenshtein's edit distance of two names, over at most 64 letters.
func Distance(a, b string) int {
	const most = 64
	x, y := []rune(a), []rune(b)
	x, y = x[:min(len(x), most)], y[:min(len(y), most)]
	row := make([]int, len(y)+1)
	for j := range row {
		row[j] = j
	}
	for i, cx := range x {
		diagonal := row[0]
		row[0] = i + 1
		for j, cy := range y {
			cost := 1
			if cx == cy {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(y)]
}
