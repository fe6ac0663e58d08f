package config

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strings"
)

// variable is ${NAME} or ${NAME:-default}, as in a shell.
var variable = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)(:-[^}\n]*)?\}`) // read-only

// fillIn replaces the environment variables in a file's text, outside of comments that have a line of
// their own. A value takes its place inside of quotes and outside: \, " and line ends of a value would
// change what the file says, and are refused. Messages show no values, which may be secrets.
func fillIn(name string, text []byte) ([]byte, Errors) {
	if !bytes.Contains(text, []byte("${")) {
		return text, nil
	}
	var wrong Errors
	lines := bytes.Split(text, []byte{'\n'})
	for i, line := range lines {
		if bytes.HasPrefix(bytes.TrimSpace(line), []byte{'#'}) {
			continue
		}
		lines[i] = variable.ReplaceAllFunc(line, func(found []byte) []byte {
			parts := variable.FindSubmatch(found)
			value, set := os.LookupEnv(string(parts[1]))
			if (!set || value == "") && len(parts[2]) > 0 {
				return parts[2][len(":-"):]
			}
			switch {
			case !set:
				wrong = append(wrong, &Error{name, i + 1, fmt.Sprintf("the environment has no variable %s; set it, or write ${%[1]s:-default}", parts[1])})
			case strings.ContainsAny(value, "\\\"\n\r"):
				wrong = append(wrong, &Error{name, i + 1, fmt.Sprintf("the variable %s has a quote, a backslash or a line end, which would change this file", parts[1])})
			}
			return []byte(value)
		})
	}
	return bytes.Join(lines, []byte{'\n'}), wrong
}
