package borrowed

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"ceiling/experiment/spec"
)

// isOpenAPI recognises a description of an interface, JSON or YAML, by its first key.
var isOpenAPI = regexp.MustCompile(`(?m)\A(?:#[^\n]*\n|---\s*\n|\s)*\{?\s*"?(?:openapi|swagger)"?\s*:`) // read-only

// document is an OpenAPI document, as its parts are looked up.
type document struct {
	root map[string]any
	left []string
	// looked counts the schemas that were looked into.
	looked int
}

// OpenAPI reads the requests of a description (OpenAPI 3): of each operation the one that its examples
// make. base is the server, where the description's own is not to be asked; "": that. nil if a file is
// no description.
func OpenAPI(data []byte, name, base string) (*Set, error) {
	if !isOpenAPI.Match(data) {
		return nil, nil
	}
	if line := spec.TooDeep(data); line > 0 {
		return nil, fmt.Errorf("%s:%d: nested too deep", name, line)
	}
	d := &document{}
	if err := yaml.Unmarshal(data, &d.root); err != nil {
		return nil, fmt.Errorf("%s: %s", name, strings.ReplaceAll(yaml.FormatError(err, false, false), "\n", " "))
	}
	if version, _ := d.root["openapi"].(string); !strings.HasPrefix(version, "3") {
		return nil, fmt.Errorf("%s: OpenAPI 3 is read, and this is %v%v; convert it", name, d.root["openapi"], d.root["swagger"])
	}
	server, err := d.server(base)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	s := &Set{}
	paths := d.object(d.root["paths"])
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		item := d.object(paths[path])
		for _, method := range []string{"get", "post", "put", "patch", "delete", "head", "options"} {
			operation := d.object(item[method])
			if operation == nil {
				continue
			}
			r, err := d.request(strings.ToUpper(method), server+path, append(d.list(item["parameters"]), d.list(operation["parameters"])...), operation)
			if err != nil {
				d.left = append(d.left, fmt.Sprintf("left out: %s %s: %s", strings.ToUpper(method), path, err))
				continue
			}
			s.Requests = append(s.Requests, *r)
		}
	}
	s.Left = d.left
	if len(s.Requests) == 0 {
		return nil, fmt.Errorf("%s: no request in it that can be sent; %s", name, strings.Join(s.Left, "; "))
	}
	return s, nil
}

// server is the URL that paths follow.
func (d *document) server(base string) (string, error) {
	own := ""
	if list := d.list(d.root["servers"]); len(list) > 0 {
		first := d.object(list[0])
		own, _ = first["url"].(string)
		for name, v := range d.object(first["variables"]) {
			own = strings.ReplaceAll(own, "{"+name+"}", fmt.Sprint(d.object(v)["default"]))
		}
	}
	own = strings.TrimSuffix(own, "/")
	switch {
	case base != "" && strings.Contains(own, "://"):
		u, err := url.Parse(own)
		if err != nil {
			return "", err
		}
		return base + strings.TrimSuffix(u.EscapedPath(), "/"), nil
	case base != "":
		return base + own, nil
	case !strings.Contains(own, "://"):
		return "", errors.New("it names no server; give its URL as well: --targets FILE http://127.0.0.1:8080")
	}
	return own, nil
}

// request makes the request of an operation.
func (d *document) request(method, target string, parameters []any, operation map[string]any) (*Request, error) {
	r := &Request{Method: method}
	query := url.Values{}
	for _, p := range parameters {
		p := d.object(p)
		name, _ := p["name"].(string)
		required, _ := p["required"].(bool)
		value, known := d.parameterExample(p)
		switch in, _ := p["in"].(string); {
		case !known && required:
			return nil, fmt.Errorf("%s has no example", name)
		case !known:
		case in == "path":
			target = strings.ReplaceAll(target, "{"+name+"}", url.PathEscape(value))
		case in == "query":
			query.Set(name, value)
		case in == "header":
			r.Header = append(r.Header, spec.Field{Name: name, Value: value})
		}
	}
	if missing := regexp.MustCompile(`\{[^}]*\}`).FindString(target); missing != "" {
		return nil, fmt.Errorf("%s is not described", missing)
	}
	if r.URL = target; len(query) > 0 {
		r.URL += "?" + query.Encode()
	}
	body := d.object(operation["requestBody"])
	if body == nil {
		return r, nil
	}
	media := d.object(d.object(body["content"])["application/json"])
	example, known := d.mediaExample(media)
	if !known {
		if required, _ := body["required"].(bool); !required && method != "POST" && method != "PUT" && method != "PATCH" {
			return r, nil
		}
		return nil, errors.New("its body has no example, or is not JSON")
	}
	text, err := json.Marshal(example)
	if err != nil {
		return nil, fmt.Errorf("its body's example: %w", err)
	}
	r.Body = text
	r.Header = append(r.Header, spec.Field{Name: "Content-Type", Value: "application/json"})
	return r, nil
}

// parameterExample is the value that a parameter's example, or its schema, gives.
func (d *document) parameterExample(p map[string]any) (string, bool) {
	v, known := d.mediaExample(p)
	if !known {
		return "", false
	}
	if list, is := v.([]any); is {
		var texts []string
		for _, e := range list {
			texts = append(texts, fmt.Sprint(e))
		}
		return strings.Join(texts, ","), true
	}
	return fmt.Sprint(v), true
}

// mediaExample is the example of what has example, examples or a schema: a parameter, or a body.
func (d *document) mediaExample(m map[string]any) (any, bool) {
	if v, is := m["example"]; is {
		return v, true
	}
	examples := d.object(m["examples"])
	for _, name := range slices.Sorted(maps.Keys(examples)) {
		if v, is := d.object(examples[name])["value"]; is {
			return v, true
		}
	}
	return d.schemaExample(m["schema"], nil)
}

// schemaMost bounds the nesting of schemas, and lookedMost how many are looked into: each may name another
// one twice.
const (
	schemaMost = 16
	lookedMost = 200_000
)

// schemaExample is what a schema says of itself, or makes of its parts. inside are the references that
// led to it: one that refers to itself has no example there.
func (d *document) schemaExample(v any, inside []string) (any, bool) {
	s := d.object(v)
	ref := ""
	if o, is := v.(map[string]any); is {
		ref, _ = o["$ref"].(string)
	}
	if d.looked++; s == nil || d.looked > lookedMost || len(inside) > schemaMost || ref != "" && slices.Contains(inside, ref) {
		return nil, false
	}
	inside = append(slices.Clone(inside), ref)
	for _, key := range []string{"example", "default", "const"} {
		if v, is := s[key]; is {
			return v, true
		}
	}
	for _, key := range []string{"enum", "examples"} {
		if list := d.list(s[key]); len(list) > 0 {
			return list[0], true
		}
	}
	for _, key := range []string{"allOf", "oneOf", "anyOf"} {
		if list := d.list(s[key]); len(list) > 0 {
			return d.composed(key, list, inside)
		}
	}
	if items := s["items"]; items != nil {
		v, known := d.schemaExample(items, inside)
		return []any{v}, known
	}
	properties := d.object(s["properties"])
	if properties == nil {
		return nil, false
	}
	out := map[string]any{}
	for name, p := range properties {
		v, known := d.schemaExample(p, inside)
		if known {
			out[name] = v
		} else if slices.Contains(d.list(s["required"]), any(name)) {
			return nil, false
		}
	}
	return out, len(out) > 0
}

// composed is the example of a schema that is made of others: all of them, or the first that has one.
func (d *document) composed(key string, list []any, inside []string) (any, bool) {
	all := map[string]any{}
	for _, one := range list {
		v, known := d.schemaExample(one, inside)
		part, isObject := v.(map[string]any)
		switch {
		case known && (key != "allOf" || !isObject):
			return v, true
		case known:
			maps.Copy(all, part)
		}
	}
	return all, len(all) > 0
}

// object is a part of the document, behind its references; nil if it is none.
func (d *document) object(v any) map[string]any {
	for range schemaMost {
		o, is := v.(map[string]any)
		if !is {
			return nil
		}
		ref, is := o["$ref"].(string)
		if !is {
			return o
		}
		v = d.root
		for name := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
			o, is := v.(map[string]any)
			if !is {
				return nil
			}
			v = o[strings.NewReplacer("~1", "/", "~0", "~").Replace(name)]
		}
	}
	return nil // a reference to itself
}

func (d *document) list(v any) []any {
	list, _ := v.([]any)
	return list
}
