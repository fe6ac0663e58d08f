package spec

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// given is a key that a level sets, with what tables call the setting.
type given struct{ key, label string }

// given returns what the level sets; each variable and each tuning is a key.
func (l *Level) given() []given {
	list := []given{{"server", l.Server}, {"request", l.Request}, {"args", l.Args}}
	for _, v := range l.Env {
		name, _, _ := strings.Cut(v, "=")
		list = append(list, given{"env " + name, v})
	}
	for _, t := range l.Tune {
		name, _, _ := strings.Cut(t, "=")
		list = append(list, given{"tune " + name, t})
	}
	list = append(list, l.Link.given()...)
	for _, part := range []any{l.Lists, l.Settings} {
		v := reflect.ValueOf(part)
		for i := range v.NumField() {
			if f := v.Field(i); !f.IsZero() {
				key, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
				list = append(list, given{key, labelOf(key, f.Interface())})
			}
		}
	}
	return slices.DeleteFunc(list, func(g given) bool { return g.label == "" })
}

// labelOf names a setting of the load: 64 connections, server on CPU 0-3, engine epoll.
func labelOf(key string, value any) string {
	text := strings.Trim(fmt.Sprint(value), "[]")
	switch key {
	case "connections", "threads":
		return Dimension(key).Count(float64(value.(List[Count])[0]))
	case "pipelining":
		return text + " in flight"
	case "rate":
		return text + "/s"
	case "new_connections":
		return value.(PerConnection).Says(Requests)
	case "pin_server":
		return "server on CPU " + text
	case "pin_generator":
		return "generator on CPU " + text
	case "no_lone":
		return "no unloaded requests"
	}
	return key + " " + text
}

// Onto returns the base with every setting that s sets in place of its own.
func (s Settings) Onto(base Settings) Settings {
	set, into := reflect.ValueOf(s), reflect.ValueOf(&base).Elem()
	for i := range set.NumField() {
		if f := set.Field(i); !f.IsZero() {
			into.Field(i).Set(f)
		}
	}
	return base
}
