package config

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// places maps a file's keys, such as locations.0.destinations.1.uri, to lines.
type places struct {
	file  string
	lines map[string]int
}

// line returns the line of a key, or of the nearest enclosing table.
func (p *places) line(key string) int {
	for key != "" {
		if n, ok := p.lines[key]; ok {
			return n
		}
		key = key[:max(strings.LastIndexByte(key, '.'), 0)]
	}
	return 1
}

// findPlaces scans a file that was decoded without an error.
func findPlaces(name string, text []byte) *places {
	p := &places{name, map[string]int{}}
	counts := map[string]int{} // elements seen of each array of tables
	table := ""
	var parser unstable.Parser
	parser.Reset(text)
	for parser.NextExpression() {
		e := parser.Expression()
		var keys []string
		at := -1
		for it := e.Key(); it.Next(); {
			keys = append(keys, string(it.Node().Data))
			if at < 0 {
				at = int(it.Node().Raw.Offset)
			}
		}
		if at < 0 {
			continue
		}
		line := 1 + bytes.Count(text[:at], []byte{'\n'})
		switch e.Kind {
		case unstable.Table:
			table = numbered(keys, counts)
			p.note(table, line)
		case unstable.ArrayTable:
			counts[numbered(keys[:len(keys)-1], counts)+"/"+keys[len(keys)-1]]++
			table = numbered(keys, counts)
			p.note(table, line)
		case unstable.KeyValue:
			key := strings.Join(keys, ".")
			if table != "" {
				key = table + "." + key
			}
			p.note(key, line)
			p.value(key, e.Value(), text)
		}
	}
	return p
}

func (p *places) note(key string, line int) {
	if _, known := p.lines[key]; !known {
		p.lines[key] = line
	}
}

// value records what is inside arrays and inline tables.
func (p *places) value(key string, v *unstable.Node, text []byte) {
	if v == nil || v.Kind != unstable.Array && v.Kind != unstable.InlineTable {
		return
	}
	i := 0
	for it := v.Children(); it.Next(); i++ {
		child := it.Node()
		if child.Kind == unstable.KeyValue {
			var keys []string
			at := 0
			for k := child.Key(); k.Next(); {
				keys = append(keys, string(k.Node().Data))
				at = int(k.Node().Raw.Offset)
			}
			inner := key + "." + strings.Join(keys, ".")
			p.note(inner, 1+bytes.Count(text[:at], []byte{'\n'}))
			p.value(inner, child.Value(), text)
			continue
		}
		inner := key + "." + strconv.Itoa(i)
		if at := int(child.Raw.Offset); at > 0 {
			p.note(inner, 1+bytes.Count(text[:at], []byte{'\n'}))
		}
		p.value(inner, child, text)
	}
}

// numbered appends the index of the current element to each array of tables.
func numbered(keys []string, counts map[string]int) string {
	path := ""
	for _, k := range keys {
		of := path + "/" + k
		if path != "" {
			path += "."
		}
		path += k
		if n := counts[of]; n > 0 {
			path += "." + strconv.Itoa(n-1)
		}
	}
	return path
}
