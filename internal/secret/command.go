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
	if hide := h.ofFlag(before); hide != nil && isDashed(before) {
		return hide(word)
	}
	if isFlag(before) && !strings.HasPrefix(word, "-") && isName(strings.TrimLeft(before, "-")) {
		return h.Value(word)
	}
	if flag, value, found := strings.Cut(word, "="); found && isDashed(flag) && !strings.ContainsAny(flag, " \t:/") {
		hide := h.ofFlag(flag)
		switch {
		case hide == nil && isName(strings.TrimLeft(flag, "-")):
			hide = h.Value
		case hide == nil:
			hide = h.shell
		}
		return flag + "=" + hide(value)
	}
	if isDashed(word) && h.ofFlag(word) != nil {
		return word // -body is not -b with a value
	}
	if short, ok := strings.CutPrefix(word, "-H"); ok {
		return "-H" + h.fieldOf(short)
	}
	if short, ok := strings.CutPrefix(word, "-b"); ok {
		return "-b" + h.bodyOf(short)
	}
	if name, _, found := strings.Cut(word, ":"); found && isName(name) && !strings.ContainsAny(name, " /?") {
		return h.FieldLine(word)
	}
	return h.shell(word)
}

// ofFlag returns what redacts the value of a flag, of ours or of the tools whose command lines we
// take, with one dash or two; nil: the flag says nothing.
func (h *Hider) ofFlag(flag string) func(string) string {
	switch strings.TrimLeft(flag, "-") {
	case "H", "header", "headers":
		return h.fieldOf
	case "b", "body":
		return h.bodyOf
	case "u", "user", "curl": // of curl's line not even the body's place is known
		return h.Value
	}
	return nil
}

func isDashed(word string) bool { return strings.HasPrefix(word, "-") && strings.Trim(word, "-") != "" }

// fieldOf redacts a field, Name: value or Name=value.
func (h *Hider) fieldOf(word string) string {
	name, value, found := strings.Cut(word, "=")
	if !found || strings.Contains(name, ":") {
		return h.FieldLine(word)
	}
	return name + "=" + h.Field(name, value)
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
