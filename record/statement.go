package record

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
)

// Statement is one thing that the verdict says: a code with its figures and names. A record
// stores statements, never sentences: package verdict/prose has the sentence of each code, so
// that an old run reads in today's words.
type Statement struct {
	// Code names the statement: "bandwidth.full". It outlives its wording.
	Code string `json:"code"`
	// With has the statement's values: float64, string, bool, Statement, or []Statement. The name
	// of a figure ends in its unit unless the name makes it obvious (_ns, _bits, _per_s); shares
	// are 0 to 1.
	With Values `json:"with,omitempty"`
	// Text is the sentence, in JSON that ceiling prints; a stored record has none.
	Text string `json:"text,omitempty"`
}

// Values are a statement's values by name.
type Values map[string]any

// State makes a statement. Integers become float64, and figures that JSON cannot represent are
// clamped to the largest float; a value of any type other than those of Statement.With and Go's
// integers is a caller's bug and panics.
func State(code string, with Values) Statement {
	s := Statement{Code: code}
	if len(with) > 0 {
		s.With = make(Values, len(with))
		for name, v := range with {
			s.With[name] = plainValue(v)
		}
	}
	return s
}

// IsZero reports whether the statement is empty.
func (s Statement) IsZero() bool { return s.Code == "" }

// Same reports whether two statements say the same.
func (s Statement) Same(other Statement) bool {
	return s.Code == other.Code && reflect.DeepEqual(s.With, other.With)
}

func plainValue(v any) any {
	switch v := v.(type) {
	case bool, Statement, []Statement:
		return v
	case string:
		return strings.ToValidUTF8(v, "�")
	case float64:
		return finite(v)
	case nil:
		return ""
	}
	r := reflect.ValueOf(v)
	switch {
	case r.CanInt():
		return float64(r.Int())
	case r.CanUint():
		return float64(r.Uint())
	case r.CanFloat():
		return finite(r.Float())
	case r.Kind() == reflect.String:
		return plainValue(r.String())
	}
	panic(fmt.Sprintf("record: a statement cannot hold a %T", v))
}

// finite returns v as JSON can represent it.
func finite(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return math.Max(math.Min(v, math.MaxFloat64), -math.MaxFloat64)
}

// UnmarshalJSON reads the values back as the types that State produces.
func (v *Values) UnmarshalJSON(text []byte) error {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		return err
	}
	*v = make(Values, len(raw))
	for name, one := range raw {
		value, err := readValue(one)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		(*v)[name] = value
	}
	return nil
}

func readValue(text json.RawMessage) (any, error) {
	switch text = bytes.TrimSpace(text); text[0] {
	case '{':
		var s Statement
		err := json.Unmarshal(text, &s)
		return s, err
	case '[':
		list := []Statement{}
		err := json.Unmarshal(text, &list)
		return list, err
	}
	var plain any
	err := json.Unmarshal(text, &plain)
	return plain, err
}
