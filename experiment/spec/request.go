package spec

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"ceiling/internal/secret"
)

const (
	// BodyMax limits a request body, in bytes: bodies are kept in memory, sent whole, and written
	// to the record.
	BodyMax = 16 << 20
	// fieldMax limits a header field, name and value, in bytes; no major server accepts more in
	// the whole head.
	fieldMax = 64 << 10
	// fieldsMax limits the header fields of a target (nginx and Apache allow 100 to 1000).
	fieldsMax = 1000
)

// ParseField parses a header field as typed, "Name: value" (RFC 9110 §5.1, §5.5). It trims blanks
// around the value, which may be empty. The name keeps its case.
func ParseField(text string) (Field, error) {
	name, value, found := strings.Cut(text, ":")
	if !found {
		return Field{}, fmt.Errorf("header %s has no colon; write 'Name: value'", quoteShort(secret.Plain().Shell(text)))
	}
	f := Field{Name: name, Value: strings.Trim(value, " \t")}
	return f, f.check()
}

func (f Field) check() error {
	switch {
	case f.Name == "":
		return fmt.Errorf("header %s has no name; write 'Name: value'", quoteShort(": "+f.Value))
	case !isToken(f.Name):
		return fmt.Errorf("header name %s: only letters, digits and !#$%%&'*+-.^_`|~ are allowed in it; write 'Name: value'", quoteShort(f.Name))
	case len(f.Name)+len(f.Value) > fieldMax:
		return fmt.Errorf("header %s: %d bytes are too many; at most %d", quoteShort(f.Name), len(f.Name)+len(f.Value), fieldMax)
	case !utf8.ValidString(f.Value):
		return fmt.Errorf("header %s: the value is not UTF-8; only text can be kept in the record", f.Name)
	}
	for i, c := range []byte(f.Value) {
		if c < 0x20 && c != '\t' || c == 0x7f {
			return fmt.Errorf("header %s: a control character (%#02x) at byte %d of the value; remove it", f.Name, c, i+1)
		}
	}
	return nil
}

// isToken recognises a token of RFC 9110 §5.6.2: methods and field names.
func isToken(s string) bool {
	for _, c := range []byte(s) {
		if !isLetter(c) && !isDigit(c) && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}

// ReadBody returns the bytes that a body argument names: "@-" is stdin, "@file" the file,
// anything else is literal. At most BodyMax bytes.
func ReadBody(arg string, stdin io.Reader) ([]byte, error) {
	name, isFile := strings.CutPrefix(arg, "@")
	switch {
	case !isFile && len(arg) > BodyMax:
		return nil, fmt.Errorf("body: %d bytes are too many; at most %d", len(arg), BodyMax)
	case !isFile:
		return []byte(arg), nil
	case name == "":
		return nil, errors.New("body @: the file's name is missing; write @file, or @- for the standard input")
	case name == "-":
		return ReadAtMost(stdin, BodyMax, "body from the standard input")
	}
	return readFile(name, BodyMax, "body")
}

// readFile reads a file of at most most bytes. what names it in errors.
func readFile(name string, most int64, what string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	defer f.Close()
	return ReadAtMost(f, most, what+" "+name)
}

// ReadAtMost reads all of r, or says that it is more than most bytes. what names it in errors.
func ReadAtMost(r io.Reader, most int64, what string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, most+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	if int64(len(data)) > most {
		return nil, fmt.Errorf("%s: more than %d bytes, which is the most that is taken", what, most)
	}
	return data, nil
}
