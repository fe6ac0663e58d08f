package record

import "strings"

// Apart is what tells two names apart, word by word: of the commands "serve fasthttp
// --addr x" and "serve nethttp --addr x" the words "fasthttp" and "nethttp". Either is ""
// where the other has words more and nothing else.
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
