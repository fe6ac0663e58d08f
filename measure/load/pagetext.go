package load

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"html"
	"io"
	"net/http"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"ceiling/internal/lazy"
)

// The text of an error page that a person would read, on one line. The page may be cut off.

// pageText returns it: a page's title, a document's message, else the first line of text; "" if the
// body is not text.
func pageText(body []byte) string {
	if bytes.HasPrefix(body, []byte{0x1f, 0x8b}) { // gzip, RFC 1952
		body = unpacked(body)
	}
	body = bytes.TrimSpace(bytes.TrimPrefix(body, []byte("\uFEFF")))
	if noText(body) {
		return ""
	}
	switch {
	case bytes.HasPrefix(body, []byte("{")), bytes.HasPrefix(body, []byte("[")):
		if text := oneLine(jsonText(body)); text != "" {
			return text
		}
	case bytes.HasPrefix(body, []byte("<")):
		if text := oneLine(markupText(string(body))); text != "" {
			return text
		}
	}
	return firstLine(body)
}

// firstLine returns the first line that has text, and the next if the first says no more than the
// status.
func firstLine(body []byte) (first string) {
	for line := range bytes.Lines(body) {
		switch text := oneLine(string(line)); {
		case text == "":
		case first != "":
			return oneLine(first + ": " + text)
		case strings.HasPrefix(text, "<") || !plainStatus(text):
			return text
		default:
			first = text
		}
	}
	return first
}

// unpacked returns the beginning of what gzip packed, as far as it is there.
func unpacked(body []byte) []byte {
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil
	}
	text, _ := io.ReadAll(io.LimitReader(z, pageMost)) // a page that is cut off ends in an error
	return text
}

// noText reports whether a body is no text: compressed, or another form.
func noText(body []byte) bool {
	body = body[:min(len(body), 4*errorLineMax)]
	strange := 0
	for rest := body; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		if r == utf8.RuneError || !unicode.IsPrint(r) && !unicode.IsSpace(r) && r != escape {
			strange += size
		}
		rest = rest[size:]
	}
	return strange > len(body)/4
}

const escape = '\x1b'

// terminal matches the control sequences of a terminal (ECMA-48): colours, titles of a window.
var terminal = lazy.Regexp(`\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|[ -/]*[0-~])`) // read-only

// oneLine joins lines and removes what is no text; the result has at most 200 bytes.
func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case r == utf8.RuneError || !unicode.IsPrint(r):
			return -1
		}
		return r
	}, terminal().ReplaceAllString(text, ""))
	text = strings.Join(strings.Fields(text), " ")
	for len(text) > errorLineMax {
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}
	return text
}

// said is a text of a document, with how well its name promises a message.
type said struct {
	text  string
	rank  int // smaller is better; labels have rank 0
	depth int
}

// rankOf ranks the name of a field: 0 for a label such as a title, -1 for what is no message.
func rankOf(name string) int {
	name = strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(name))
	messages := []string{"message", "errormessage", "errordescription", "errormsg", "detail", "details", "description", "faultstring", "text",
		"reason", "msg", "cause", "exception", "errors"}
	switch {
	case slices.Contains([]string{"title", "error", "fault", "statusmessage"}, name):
		return 0
	case slices.Contains(messages, name):
		return 1 + slices.Index(messages, name)
	}
	return -1
}

// labelled joins the best label and the best message: "Out of credit: Your balance is 30".
func labelled(list []said) string {
	var label, message string
	slices.SortStableFunc(list, func(a, b said) int { return cmp.Or(cmp.Compare(a.depth, b.depth), cmp.Compare(a.rank, b.rank)) })
	for _, s := range list {
		switch {
		case s.rank == 0 && label == "":
			label = s.text
		case s.rank > 0 && message == "":
			message = s.text
		}
	}
	switch {
	case label == "" || strings.Contains(strings.ToLower(message), strings.ToLower(label)):
		return message
	case message == "" || strings.Contains(strings.ToLower(label), strings.ToLower(message)):
		return label
	}
	return label + ": " + message
}

// jsonText returns the message of a JSON document; without one the document, without its blanks.
func jsonText(body []byte) string {
	d := json.NewDecoder(bytes.NewReader(body))
	r := jsonReader{decoder: d}
	r.value("", 0)
	if text := labelled(r.list); text != "" {
		return text
	}
	var compact bytes.Buffer
	if json.Compact(&compact, body) != nil {
		return string(body)
	}
	return compact.String()
}

// jsonReader collects the texts of a document that may be cut off.
type jsonReader struct {
	decoder *json.Decoder
	list    []said
}

// deepest bounds the nesting that is read.
const deepest = 16

// value reads one value; name is that of the nearest field. It reports whether there is more.
func (r *jsonReader) value(name string, depth int) bool {
	token, err := r.decoder.Token()
	if err != nil || depth > deepest {
		return false
	}
	switch t := token.(type) {
	case string:
		if rank := rankOf(name); rank >= 0 && strings.TrimSpace(t) != "" {
			r.list = append(r.list, said{t, rank, depth})
		}
	case json.Delim:
		return r.inside(t, name, depth)
	}
	return true
}

// inside reads the rest of an object or a list.
func (r *jsonReader) inside(opening json.Delim, name string, depth int) bool {
	for r.decoder.More() {
		if opening == '{' {
			key, err := r.decoder.Token()
			if err != nil {
				return false
			}
			name, _ = key.(string) // nothing else is a key
		}
		if !r.value(name, depth+1) {
			return false
		}
	}
	_, err := r.decoder.Token()
	return err == nil
}

// markup matches a comment, what is no text for a reader, or one tag.
var markup = lazy.Regexp(`(?is)<!--.*?(-->|$)|<(script|style|noscript|template)\b.*?(</(script|style|noscript|template)\s*>|$)|<!\[CDATA\[|\]\]>|</?([a-z][a-z0-9:._-]*)[^>]*(>|$)|<[!?][^>]*(>|$)`) // read-only

// nameAt is the group of the expression that has the name of a tag.
const nameAt = 5

// inline tags do not end a paragraph.
var inline = lazy.Regexp(`(?i)^(a|abbr|b|br|code|em|font|i|kbd|small|span|strong|sub|sup|tt|u|wbr)$`) // read-only

// markupText returns the text of HTML or XML: a fault's message; else the title, and the first
// paragraph if the title says no more than the status does.
func markupText(page string) string {
	var list []said
	title, first, status, tag := "", "", "", ""
	add := func(text string) {
		text = strings.Join(strings.Fields(html.UnescapeString(text)), " ")
		if text == "" {
			return
		}
		switch rank := rankOf(tag[strings.LastIndexByte(tag, ':')+1:]); {
		case strings.EqualFold(tag, "title") && title == "":
			title = text
		case rank >= 0:
			list = append(list, said{text: text, rank: rank})
		}
		switch {
		case strings.EqualFold(tag, "title"):
		case first == "" && !plainStatus(text):
			first = text
		case status == "":
			status = text
		}
	}
	text, at := "", 0
	for _, m := range markup().FindAllStringSubmatchIndex(page, -1) {
		text += page[at:m[0]]
		at = m[1]
		if m[2*nameAt] < 0 {
			continue
		}
		name := page[m[2*nameAt]:m[2*nameAt+1]]
		if inline().MatchString(name) {
			text += map[bool]string{true: " "}[strings.EqualFold(name, "br")]
			continue
		}
		add(text)
		if text, tag = "", name; strings.HasPrefix(page[m[0]:], "</") {
			tag = ""
		}
	}
	add(text + page[at:])
	switch message := labelled(list); {
	case message != "" && title == "":
		return message
	case title == "":
		return cmp.Or(first, status)
	case !plainStatus(title), first == "":
		return title
	case plainStatus(title) && strings.Contains(strings.ToLower(first), strings.ToLower(title)):
		return first
	}
	return title + ": " + first
}

// software matches the signature of a server below its page: "nginx/1.22.1".
var software = lazy.Regexp(`^[A-Za-z][\w.-]*(/[\w.+-]+)?$`) // read-only

// plainStatus reports whether a text says no more than a status does, or names the software alone.
func plainStatus(text string) bool {
	if software().MatchString(text) {
		return true
	}
	text = strings.ToLower(text)
	for status := 400; status < 600; status++ {
		if phrase := http.StatusText(status); phrase != "" {
			text = strings.ReplaceAll(text, strings.ToLower(phrase), "")
		}
	}
	for _, word := range []string{"http", "status", "error", "code", "server", "page", "the", "oops", "response", "report", "type", "uri", "message"} {
		text = strings.ReplaceAll(text, word, "")
	}
	return strings.IndexFunc(text, unicode.IsLetter) < 0
}
