package secret

import (
	"slices"
	"strings"
)

// Command redacts the secrets of a command line, word by word: header fields, bodies, values of
// flags with secret names, and the secrets of a shell command within each word. A file name is
// not a secret.
func (h *Hider) Command(words []string) []string {
	words = slices.Clone(words)
	for i := range words {
		before := ""
		if i > 0 {
			before = words[i-1]
		}
		words[i] = h.argument(words[i], before)
	}
	return words
}

// argument redacts one word; before is the previous one.
func (h *Hider) argument(word, before string) string {
	switch {
	case before == "-H" || before == "--header":
		return h.FieldLine(word)
	case before == "-b" || before == "--body":
		return h.bodyOf(word)
	case before == "-u" || before == "--user":
		return h.Value(word)
	case isFlag(before) && !strings.HasPrefix(word, "-") && isName(strings.TrimLeft(before, "-")):
		return h.Value(word)
	}
	if flag, value, found := strings.Cut(word, "="); found && isFlag(flag) {
		switch {
		case flag == "--header":
			return flag + "=" + h.FieldLine(value)
		case flag == "--body":
			return flag + "=" + h.bodyOf(value)
		case isName(strings.TrimLeft(flag, "-")):
			return flag + "=" + h.Value(value)
		}
		return flag + "=" + h.shell(value)
	}
	if short, ok := strings.CutPrefix(word, "-H"); ok {
		return "-H" + h.FieldLine(short)
	}
	if short, ok := strings.CutPrefix(word, "-b"); ok {
		return "-b" + h.bodyOf(short)
	}
	if name, _, found := strings.Cut(word, ":"); found && isName(name) && !strings.ContainsAny(name, " /?") {
		return h.FieldLine(word)
	}
	return h.shell(word)
}

// bodyOf redacts a body, unless it names a file.
func (h *Hider) bodyOf(word string) string {
	if strings.HasPrefix(word, "@") {
		return word
	}
	return h.Value(word)
}

// isFlag recognises a long flag without its value.
func isFlag(word string) bool {
	return strings.HasPrefix(word, "--") && len(word) > 2 && !strings.ContainsAny(word, "= \t:/")
}
