package page

import (
	"fmt"
	"reflect"
	"strings"
	"unicode"
	"unicode/utf8"
)

// textMost limits one text on a page. The record has the full text.
const textMost = 4000

// clean copies a document with every text made safe to show: it replaces control characters and
// bidirectional overrides, which could disguise text, and cuts overlong text with a note.
func clean(d Document) Document {
	v := reflect.New(reflect.TypeOf(d)).Elem()
	cleaned(v, reflect.ValueOf(d))
	return v.Interface().(Document)
}

// cleaned sets to, which is settable and zero, to a clean copy of from.
func cleaned(to, from reflect.Value) {
	switch from.Kind() {
	case reflect.String:
		to.SetString(Text(from.String()))
	case reflect.Struct:
		to.Set(from) // unexported fields hold no visible text
		for i := range from.NumField() {
			if from.Type().Field(i).IsExported() {
				cleaned(to.Field(i), from.Field(i))
			}
		}
	case reflect.Slice:
		if from.IsNil() || from.Type().Elem().Kind() == reflect.Float64 {
			to.Set(from)
			return
		}
		to.Set(reflect.MakeSlice(from.Type(), from.Len(), from.Len()))
		for i := range from.Len() {
			cleaned(to.Index(i), from.Index(i))
		}
	case reflect.Pointer:
		if from.IsNil() {
			return
		}
		to.Set(reflect.New(from.Type().Elem()))
		cleaned(to.Elem(), from.Elem())
	case reflect.Interface:
		if from.IsNil() {
			return
		}
		inner := reflect.New(from.Elem().Type()).Elem()
		cleaned(inner, from.Elem())
		to.Set(inner)
	default:
		to.Set(from)
	}
}

// Text replaces control characters and bidirectional overrides, and cuts overlong text.
func Text(s string) string {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "�")
	}
	s = strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029' {
			return '�'
		}
		return r
	}, s)
	if n := utf8.RuneCountInString(s); n > textMost {
		s = string([]rune(s)[:textMost]) + fmt.Sprintf("… and %d characters more", n-textMost)
	}
	return s
}
