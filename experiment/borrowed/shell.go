package borrowed

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// split divides a text into the words of commands as bash does. What a shell would expand or redirect is
// refused.
func split(text string) (commands [][]string, err error) {
	var words []string
	var word []byte
	inWord, brace := false, false
	end := func() {
		if inWord {
			words = append(words, string(word))
		}
		word, inWord, brace = nil, false, false
	}
	text += "\n"
	for n := 0; text != ""; text = text[n:] {
		c := text[0]
		n = 1
		switch {
		case strings.HasPrefix(text, "\\\n"):
			n = 2
		case strings.HasPrefix(text, "\\\r\n"):
			n = 3
		case c == '\\':
			word, inWord, n = append(word, text[1]), true, 2
		case c == '\'', c == '"', strings.HasPrefix(text, "$'"), strings.HasPrefix(text, `$"`):
			if word, n, err = quoted(text, word); err != nil {
				return nil, err
			}
			inWord = true
		case c == '\n':
			if end(); words != nil {
				commands, words = append(commands, words), nil
			}
		case c == ' ' || c == '\t' || c == '\r':
			end()
		case c == '#' && !inWord:
			n = strings.IndexByte(text, '\n')
		case c == '^' && strings.IndexByte("\"\r\n\\^%&|<>", text[1]) >= 0:
			return nil, errors.New("^ quotes for Windows' cmd.exe; copy the request as cURL (bash)")
		case expands(text):
			return nil, notExpanded(text)
		case strings.IndexByte("|;<>&()", c) >= 0:
			return nil, fmt.Errorf("%q: only curl itself is read; leave out what follows it, or quote the text that has it", string(c))
		case c == ',' && brace:
			return nil, errors.New("{…,…}: a shell makes several words of it; quote it")
		default:
			brace = brace || c == '{'
			word, inWord = append(word, c), true
		}
	}
	return commands, nil
}

// expands reports whether a shell puts something else in the place of what a text begins with.
func expands(text string) bool {
	return text[0] == '`' || len(text) > 1 && text[0] == '$' && (text[1] == '_' || strings.IndexByte("{(@*#?-$!", text[1]) >= 0 ||
		text[1]|0x20 >= 'a' && text[1]|0x20 <= 'z' || text[1] >= '0' && text[1] <= '9')
}

func notExpanded(text string) error {
	return fmt.Errorf("%.20q: variables and commands of the shell are not expanded; write their values", text)
}

// quoted appends a quoted part to a word, and returns its length with the quotes.
func quoted(text string, word []byte) (_ []byte, n int, err error) {
	at := strings.IndexAny(text, `'"`)
	ansi, double := at == 1 && text[1] == '\'', text[at] == '"'
	quote := text[at]
	for at++; at < len(text); at++ {
		switch c := text[at]; {
		case c == quote:
			return word, at + 1, nil
		case c == '\\' && ansi && at+1 < len(text):
			decoded, n := ansiC(text[at+1:])
			if n == 0 {
				return nil, 0, fmt.Errorf("%.10q: a zero byte, or not a character", text[at:])
			}
			word, at = append(word, decoded...), at+n
		case c == '\\' && double && at+1 < len(text) && strings.IndexByte("\"\\$`\n", text[at+1]) >= 0:
			if at++; text[at] != '\n' {
				word = append(word, text[at])
			}
		case double && expands(text[at:]):
			return nil, 0, notExpanded(text[at:])
		default:
			word = append(word, c)
		}
	}
	return nil, 0, fmt.Errorf("a quote is not closed: %.20s…", text)
}

// ansiC decodes what follows a backslash in $'…' (bash(1), QUOTING), and returns how much of it was the
// escape; 0: no argument can have it, or it is not a character.
func ansiC(text string) (decoded string, n int) {
	if i := strings.IndexByte("abeEfnrtv\\'\"?", text[0]); i >= 0 {
		return "\a\b\x1b\x1b\f\n\r\t\v\\'\"?"[i : i+1], 1
	}
	if c := text[min(1, len(text)-1)]; text[0] == 'c' {
		if c == '?' {
			return "\x7f", 2
		}
		return string([]byte{c & 0x1f}), 2 * min(1, int(c&0x1f))
	}
	base, most := 16, map[byte]int{'x': 2, 'u': 4, 'U': 8}[text[0]]
	if text[0] >= '0' && text[0] <= '7' {
		base, most, text, n = 8, 3, " "+text, -1
	}
	digits := 0
	for digits < most && digits+1 < len(text) && strings.IndexByte("0123456789abcdefABCDEF"[:base+base/16*6], text[digits+1]) >= 0 {
		digits++
	}
	if digits == 0 {
		return `\` + text[:1], 1
	}
	value, err := strconv.ParseUint(text[1:1+digits], base, 32)
	switch n += digits + 1; {
	case err != nil || value == 0 || most > 3 && !utf8.ValidRune(rune(value)):
		return "", 0
	case most > 3:
		return string(rune(value)), n
	}
	return string([]byte{byte(value)}), n
}
