package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// A path leads to a value of a document: keys and numbers of elements between
// points, and in brackets what an element has to have:
//
//	latency.response.p99_ns
//	sweep.curves.0.says
//	sweep.curves[server=fasthttp][mix=/read].points[x=64].per_s

// step is one part of a path.
type step struct {
	key   string // a key, or the number of an element
	match bool   // key and value of the element that is meant
	value string
}

func (s step) String() string {
	if s.match {
		return "[" + s.key + "=" + s.value + "]"
	}
	return s.key
}

// pathMost bounds the parts of a path: documents nest some eight deep.
const pathMost = 32

func parsePath(text string) ([]step, error) {
	var steps []step
	rest := text
	for rest != "" {
		if len(steps) == pathMost {
			return nil, fmt.Errorf("the path %q has more than %d parts", clip(text), pathMost)
		}
		if rest[0] == '[' {
			inside, after, closed := strings.Cut(rest[1:], "]")
			key, value, given := strings.Cut(inside, "=")
			if !closed || !given || key == "" || len(steps) == 0 {
				return nil, fmt.Errorf("in %q, what stands in brackets says which element is meant, as in curves[server=fasthttp]", clip(text))
			}
			steps = append(steps, step{key: key, match: true, value: value})
			rest = after
			continue
		}
		if len(steps) > 0 {
			if rest[0] != '.' {
				return nil, fmt.Errorf("the path %q lacks a point before %q", clip(text), clip(rest))
			}
			rest = rest[1:]
		}
		end := strings.IndexAny(rest, ".[")
		if end < 0 {
			end = len(rest)
		}
		if end == 0 {
			return nil, fmt.Errorf("the path %q has an empty part", clip(text))
		}
		steps = append(steps, step{key: rest[:end]})
		rest = rest[end:]
	}
	if len(steps) == 0 {
		return nil, errors.New("the path is empty")
	}
	return steps, nil
}

// place is a value of a document with the way there.
type place struct {
	value any
	// keys that led there, without the numbers of elements; parents are the
	// objects on the way, the nearest last.
	keys    []string
	parents []map[string]any
}

func (p *place) last() string {
	if len(p.keys) == 0 {
		return ""
	}
	return p.keys[len(p.keys)-1]
}

// find follows a path. Its error names the part that is not there, and what is
// like it.
func find(document any, steps []step) (place, error) {
	at := place{value: document}
	for i := 0; i < len(steps); i++ {
		way := pathText(steps[:i])
		switch v := at.value.(type) {
		case map[string]any:
			if steps[i].match {
				return at, fmt.Errorf("%s is no list", way)
			}
			inner, there := v[steps[i].key]
			if !there {
				return at, noKey(way, steps[i].key, v)
			}
			at.keys = append(at.keys, steps[i].key)
			at.parents = append(at.parents, v)
			at.value = inner
		case []any:
			element, used, err := choose(way, v, steps[i:])
			if err != nil {
				return at, err
			}
			at.value = element
			i += used - 1
		default:
			return at, fmt.Errorf("%s has no parts", way)
		}
	}
	return at, nil
}

// pathText is a path as it is written.
func pathText(steps []step) string {
	var b strings.Builder
	for i, s := range steps {
		if i > 0 && !s.match {
			b.WriteByte('.')
		}
		b.WriteString(s.String())
	}
	if b.Len() == 0 {
		return "the record"
	}
	return b.String()
}

func noKey(way, key string, in map[string]any) error {
	var keys []string
	for k := range in {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return fmt.Errorf("%s has no %q%s", way, clip(key), nearTo(key, keys))
}

// choose picks the element of a list that the next parts of a path mean, and
// says how many parts these were.
func choose(way string, list []any, steps []step) (element any, used int, err error) {
	if !steps[0].match {
		n, err := strconv.Atoi(steps[0].key)
		if err != nil {
			return nil, 0, fmt.Errorf("%s is a list of %d; take one by its number or by what it has, as in [key=value]", way, len(list))
		}
		if n < 0 || n >= len(list) {
			return nil, 0, fmt.Errorf("%s has %d elements, and no number %d", way, len(list), n)
		}
		return list[n], 1, nil
	}
	left := list
	for used < len(steps) && steps[used].match {
		s := steps[used]
		var kept []any
		var values []string
		for _, one := range left {
			object, _ := one.(map[string]any)
			v, there := object[s.key]
			if there && plainText(v) == s.value {
				kept = append(kept, one)
			}
			if there && !slices.Contains(values, plainText(v)) {
				values = append(values, plainText(v))
			}
		}
		if len(kept) == 0 {
			if len(values) == 0 {
				return nil, 0, fmt.Errorf("no element of %s has a %s", way, clip(s.key))
			}
			return nil, 0, fmt.Errorf("%s has none with %s=%s%s", way, s.key, clip(s.value), nearTo(s.value, values))
		}
		left = kept
		used++
	}
	if len(left) > 1 {
		return nil, 0, fmt.Errorf("%s%s are %d elements; say which by another [key=value]", way, pathText(steps[:used]), len(left))
	}
	return left[0], used, nil
}

// plainText is a value of a document as a path has it.
func plainText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	case bool:
		return strconv.FormatBool(v)
	}
	return ""
}

// possible tells whether a document of a type could have a path: of what is not
// measured yet nothing else can be checked.
func possible(t reflect.Type, steps []step) error {
	for i, s := range steps {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		way := pathText(steps[:i])
		switch t.Kind() {
		case reflect.Struct:
			fields := jsonFields(t)
			inner, there := fields[s.key]
			if !there || s.match {
				return fmt.Errorf("%s will have no %q%s", way, clip(s.key), nearTo(s.key, slices.Sorted(maps.Keys(fields))))
			}
			t = inner
		case reflect.Slice:
			if !s.match {
				if _, err := strconv.Atoi(s.key); err != nil {
					return fmt.Errorf("%s will be a list; take one by its number or by what it has, as in [key=value]", way)
				}
			}
			if inner := t.Elem(); s.match && inner.Kind() == reflect.Struct {
				fields := jsonFields(inner)
				if _, there := fields[s.key]; !there {
					return fmt.Errorf("what is in %s will have no %q%s", way, clip(s.key), nearTo(s.key, slices.Sorted(maps.Keys(fields))))
				}
			}
			if i+1 == len(steps) || !s.match || !steps[i+1].match {
				t = t.Elem()
			}
		case reflect.Map:
			t = t.Elem()
		default:
			return fmt.Errorf("%s will have no parts", way)
		}
	}
	return nil
}

// jsonFields are the keys that a type has in JSON.
func jsonFields(t reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			for key, inner := range jsonFields(f.Type) {
				fields[key] = inner
			}
		case f.IsExported() && name != "-" && name != "":
			fields[name] = f.Type
		}
	}
	return fields
}
