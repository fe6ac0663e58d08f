package spec

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"ceiling/internal/unit"
)

// PerConnection is how many requests a connection has before another is opened; 0: as many as the
// server lets it have. In JSON and YAML true is 1.
type PerConnection int

// perConnectionMax is what fits the engine's count.
const perConnectionMax = 1 << 30

// ParsePerConnection parses a number from 1 up; "" and false are 0, and true is 1.
func ParsePerConnection(text string) (PerConnection, error) {
	switch text {
	case "", "false":
		return 0, nil
	case "true":
		return 1, nil
	}
	n, err := unit.ParseCount(text)
	if err != nil || n < 1 || n > perConnectionMax {
		return 0, fmt.Errorf("%s is not a number of requests from 1 to %d", quoteShort(text), perConnectionMax)
	}
	return PerConnection(n), nil
}

// Each reports whether every request has a connection of its own.
func (p PerConnection) Each() bool { return p == 1 }

// Says when a run of some kind opens new connections; "" if it keeps them.
func (p PerConnection) Says(k LoadKind) string {
	switch {
	case p.Each():
		return "a new connection for each " + k.One()
	case p > 0:
		return fmt.Sprintf("a new connection every %d %s", p, k.Many())
	}
	return ""
}

// MarshalJSON writes true for 1, else the number.
func (p PerConnection) MarshalJSON() ([]byte, error) {
	if p <= 1 {
		return json.Marshal(p == 1)
	}
	return strconv.AppendInt(nil, int64(p), 10), nil
}

// UnmarshalJSON reads true, false or a number.
func (p *PerConnection) UnmarshalJSON(b []byte) (err error) {
	*p, err = ParsePerConnection(strings.TrimSpace(string(b)))
	return err
}

// UnmarshalYAML does the same.
func (p *PerConnection) UnmarshalYAML(b []byte) error { return p.UnmarshalJSON(b) }
