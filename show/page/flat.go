package page

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"ceiling/experiment/spec"
	"ceiling/internal/unit"
)

// entry is one field of a document: its path, as in docs/record.md, and its value.
type entry struct{ path, value string }

// flat lists the fields of a document in JSON order: everything in the record, including fields
// added in later versions.
func flat(prefix string, document any) ([]entry, error) {
	text, err := json.Marshal(document)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", prefix, err)
	}
	in := json.NewDecoder(bytes.NewReader(text))
	in.UseNumber()
	var list []entry
	if err := flatten(in, prefix, &list); err != nil {
		return nil, fmt.Errorf("list %s: %w", prefix, err)
	}
	return list, nil
}

// flatten reads one value. A list of plain values becomes one entry.
func flatten(in *json.Decoder, path string, list *[]entry) error {
	token, err := in.Token()
	if err != nil {
		return err
	}
	switch t := token.(type) {
	case json.Delim:
		start := len(*list)
		for n := 0; in.More(); n++ {
			name := fmt.Sprintf("%s[%d]", path, n)
			if t == '{' {
				key, err := in.Token()
				if err != nil {
					return err
				}
				name = strings.TrimPrefix(fmt.Sprintf("%s.%v", path, key), ".")
			}
			if err := flatten(in, name, list); err != nil {
				return err
			}
		}
		if _, err := in.Token(); err != nil {
			return err
		}
		if t == '[' {
			join(path, list, start)
		}
	case string:
		*list = append(*list, entry{path, t})
	case nil:
	default:
		*list = append(*list, entry{path, shown(path, fmt.Sprint(t))})
	}
	return nil
}

// join merges the plain values of a list into one entry.
func join(path string, list *[]entry, start int) {
	var values []string
	for i, e := range (*list)[start:] {
		if e.path != fmt.Sprintf("%s[%d]", path, i) {
			return // a list of objects
		}
		values = append(values, e.value)
	}
	*list = (*list)[:start]
	if len(values) > 0 {
		*list = append(*list, entry{path, strings.Join(values, ", ")})
	}
}

// shown formats a number with the unit that its name implies.
func shown(path, number string) string {
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || math.Abs(v) > 1e18 {
		return number
	}
	switch {
	case strings.HasSuffix(path, "_ns"):
		return unit.FormatNs(int64(v))
	case strings.HasSuffix(path, "_bytes"):
		return unit.FormatBytesSI(int64(v))
	case strings.HasSuffix(path, "bits_per_second"):
		return unit.FormatBits(unit.BitsPerSecond(max(v, 0)))
	}
	return number
}

// asked lists a spec. It keeps secrets, so that values can be compared; open redacts them later.
func asked(s *spec.Spec) ([]entry, error) {
	plain := *s
	plain.Targets = nil
	list, err := flat("spec", plain)
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(e entry) bool { return strings.HasPrefix(e.path, "spec.targets") })
	for i := range s.Targets {
		t := &s.Targets[i]
		path := fmt.Sprintf("spec.targets[%d]", i)
		list = append(list, entry{path + ".method", t.Method}, entry{path + ".url", t.URL})
		for _, f := range t.Header {
			list = append(list, entry{path + ".header." + f.Name, f.Value})
		}
		if t.BodyHidden != nil {
			list = append(list, entry{path + ".body", unit.FormatBytesSI(int64(t.BodyHidden.Bytes)) + ", " + t.BodyHidden.Digest})
		}
		if len(t.Body) > 0 {
			list = append(list, entry{path + ".body", bodySays(t.Body)})
		}
		if len(s.Targets) > 1 {
			list = append(list, entry{path + ".weight", strconv.Itoa(t.Weight)})
		}
	}
	return list, nil
}

// clearBody separates the size of a body from its digest. The digest is not shown: it would let a
// reader verify a guess of a short body.
const clearBody = ", SHA-256 "

func bodySays(body []byte) string {
	return fmt.Sprintf("%s%s%x", unit.FormatBytesSI(int64(len(body))), clearBody, sha256.Sum256(body))
}

// byPath indexes entries.
func byPath(list []entry) map[string]string {
	m := map[string]string{}
	for _, e := range list {
		m[e.path] = e.value
	}
	return m
}

// paths returns the paths of several lists, in order of first appearance.
func paths(lists [][]entry) []string {
	var order []string
	seen := map[string]bool{}
	for _, list := range lists {
		for _, e := range list {
			if !seen[e.path] {
				seen[e.path] = true
				order = append(order, e.path)
			}
		}
	}
	return order
}
