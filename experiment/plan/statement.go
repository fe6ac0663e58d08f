package plan

import (
	"ceiling/internal/stat"
	"ceiling/record"
)

// with are the values of a statement, by name; the name includes the unit.
type with = record.Values

// say makes one statement. Package prose has the sentences.
func say(code string, values with) record.Statement { return record.State(code, values) }

// warned converts the warnings of a figure.
func warned(list []stat.Warning) []record.Statement {
	var out []record.Statement
	for _, w := range list {
		out = append(out, record.State(w.Code, w.With))
	}
	return out
}
