package record

import "strings"

// Apart returns the words in which two names differ: for the commands "serve fasthttp --addr x"
// and "serve nethttp --addr x", "fasthttp" and "nethttp". One is "" if the other only has
// additional words.
func Apart(a, b string) (ofA, ofB string) {
	x, y := strings.Fields(a), strings.Fields(b)
	for len(x) > 0 && len(y) > 0 && x[0] == y[0] {
		x, y = x[1:], y[1:]
	}
	for len(x) > 0 && len(y) > 0 && x[len(x)-1] == y[len(y)-1] {
		x, y = x[:len(x)-1], y[:len(y)-1]
	}
	return strings.Join(x, " "), strings.Join(y, " ")
}
