package config

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
)

// said rewords a decoder's error in the file's terms: the library names Go's types, and omits the
// key of invalid text.
func said(e *toml.DecodeError) string {
	what := strings.TrimPrefix(e.Error(), "toml: ")
	key := strings.Join(e.Key(), ".")
	if got, of, ok := strings.Cut(strings.TrimPrefix(what, "cannot decode TOML "), " into struct field "); ok {
		_, goType, _ := strings.Cut(of, " of type ")
		return fmt.Sprintf("%s: %s is wanted, not %s %s", key, wanted(goType), article(got), got)
	}
	if strings.HasPrefix(what, "time: ") {
		return fmt.Sprintf("%s: %s; a time is written like %q or %q", key, strings.TrimPrefix(what, "time: "), "10s", "1m30s")
	}
	if key != "" {
		return key + ": " + what
	}
	return what
}

func wanted(goType string) string {
	switch {
	case goType == "string":
		return `a text in quotes`
	case goType == "bool":
		return "true or false"
	case strings.HasPrefix(goType, "int"):
		return "a whole number"
	case strings.HasPrefix(goType, "float"):
		return "a number"
	case goType == "[]string":
		return `a list of texts, ["…"],`
	case strings.HasPrefix(goType, "[]"):
		return "a list of tables, [[…]],"
	}
	return "a table, […],"
}

func article(word string) string {
	if strings.ContainsRune("aeiou", rune(word[0])) {
		return "an"
	}
	return "a"
}

// shortest is the least plausible duration: shorter ones come from a number without a unit, which
// the decoder takes for nanoseconds.
const shortest = Duration(time.Millisecond)

// unitless finds durations below shortest in v and its contents; found receives their keys.
func unitless(v reflect.Value, key string, found func(key string, d Duration)) {
	if d, ok := v.Interface().(Duration); ok {
		if d != 0 && d < shortest && d > -shortest {
			found(key, d)
		}
		return
	}
	below := func(name string) string { return strings.TrimPrefix(key+"."+name, ".") }
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			unitless(v.Elem(), key, found)
		}
	case reflect.Slice:
		for i := range v.Len() {
			unitless(v.Index(i), below(fmt.Sprint(i)), found)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			tag, _, _ := strings.Cut(f.Tag.Get("toml"), ",")
			switch {
			case !f.IsExported():
			case f.Anonymous && tag == "":
				unitless(v.Field(i), key, found)
			default:
				unitless(v.Field(i), below(tag), found)
			}
		}
	}
}
