package borrowed

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"ceiling/experiment/spec"
)

// readCurls reads curl command lines, each of which may go on behind a backslash at the end of a line.
func readCurls(text string, open Opener) (*Set, error) {
	s := &Set{Flags: map[string]string{}}
	words, err := split(text)
	if err != nil {
		return nil, err
	}
	for at := 0; at < len(words); {
		end := at + 1
		for end < len(words) && words[end] != newline {
			end++
		}
		if err := s.addCurl(words[at:end], open); err != nil {
			return nil, err
		}
		for at = end; at < len(words) && words[at] == newline; at++ {
		}
	}
	return s, nil
}

// Curl reads one command line.
func Curl(text string, open Opener) (*Set, error) {
	text = strings.TrimSpace(text)
	if text != "curl" && !strings.HasPrefix(text, "curl ") {
		text = "curl " + text
	}
	s, err := readCurls(text, open)
	if err == nil && len(s.Requests) > 1 {
		err = errors.New("several URLs; give one, or a file of curl lines to --targets")
	}
	return s, err
}

// newline is a word for the end of a command.
const newline = "\n"

// split divides a text into words as a shell does: quotes, backslashes, $'…'. It expands nothing.
func split(text string) (words []string, err error) {
	var word strings.Builder
	open := false
	end := func() {
		if open {
			words, open = append(words, word.String()), false
			word.Reset()
		}
	}
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '\\' && i+1 < len(text):
			if i++; text[i] == '\r' && i+1 < len(text) {
				i++
			}
			if text[i] != '\n' {
				word.WriteByte(text[i])
				open = true
			}
		case c == '\'' || c == '"' || c == '$' && i+1 < len(text) && text[i+1] == '\'':
			n, err := quoted(text[i:], &word)
			if err != nil {
				return nil, err
			}
			i, open = i+n-1, true
		case c == '\n':
			end()
			words = append(words, newline)
		case c == ' ' || c == '\t' || c == '\r':
			end()
		case c == '|' || c == ';' || c == '>' || c == '&' && (i+1 == len(text) || strings.IndexByte(" \n&", text[i+1]) >= 0):
			return nil, fmt.Errorf("%q: only curl itself is read; leave out what follows it", string(c))
		default:
			word.WriteByte(c)
			open = true
		}
	}
	end()
	return words, nil
}

// quoted reads a quoted part, and returns its length with the quotes.
func quoted(text string, into *strings.Builder) (int, error) {
	quote, at, escapes := text[0], 1, text[0] == '"'
	if quote == '$' {
		quote, at, escapes = '\'', 2, true
	}
	ansi := at == 2
	for ; at < len(text); at++ {
		switch c := text[at]; {
		case c == quote:
			return at + 1, nil
		case c == '\\' && escapes && at+1 < len(text):
			at++
			switch next := text[at]; {
			case ansi && next == 'n':
				into.WriteByte('\n')
			case ansi && next == 't':
				into.WriteByte('\t')
			case ansi && next == 'r':
				into.WriteByte('\r')
			case ansi || strings.IndexByte("\"\\$`", next) >= 0:
				into.WriteByte(next)
			case next != '\n':
				into.WriteString("\\" + string(next))
			}
		default:
			into.WriteByte(c)
		}
	}
	return 0, fmt.Errorf("a quote is not closed: %.20s…", text)
}

// curlTakes says which of curl's options have a value, and which of them matter.
func curlTakes(name string) (value, matters, known bool) {
	switch name {
	case "X", "request", "H", "header", "d", "data", "data-raw", "data-binary", "data-ascii", "data-urlencode", "json", "u", "user", "A",
		"user-agent", "e", "referer", "b", "cookie", "url", "cacert", "E", "cert", "key", "resolve", "unix-socket", "m", "max-time",
		"x", "proxy", "oauth2-bearer":
		return true, true, true
	case "G", "get", "k", "L", "location", "insecure", "I", "head", "compressed", "http1.1", "http2", "http2-prior-knowledge":
		return false, true, true
	case "o", "output", "w", "write-out", "connect-timeout", "retry", "retry-delay", "c", "cookie-jar", "D", "dump-header", "max-redirs",
		"keepalive-time", "stderr", "trace", "trace-ascii":
		return true, false, true
	case "s", "silent", "S", "show-error", "v", "verbose", "i", "include", "f", "fail", "fail-with-body", "g", "globoff",
		"no-progress-meter", "progress-bar", "#", "O", "remote-name", "N", "no-buffer", "tcp-nodelay", "no-keepalive", "J":
		return false, false, true
	}
	return false, false, false
}

// command is a curl command line as it is read.
type command struct {
	Request
	urls   []string
	method string
	data   []string
	get    bool
	head   bool
	json   bool
	flags  map[string]string
}

// addCurl reads a command's words.
func (s *Set) addCurl(words []string, open Opener) error {
	c := command{flags: s.Flags}
	if words[0] != "curl" {
		return fmt.Errorf("%.20q is not a curl command", words[0])
	}
	for at := 1; at < len(words); at++ {
		word := words[at]
		if len(word) < 2 || word[0] != '-' {
			c.urls = append(c.urls, word)
			continue
		}
		n, err := c.option(word, words[at+1:], open)
		if err != nil {
			return err
		}
		at += n
	}
	return c.finish(s)
}

// option reads an option, or letters that stand together; n is how many of the next words are
// values of it.
func (c *command) option(word string, next []string, open Opener) (n int, err error) {
	name, value, given := strings.Cut(strings.TrimPrefix(word, "--"), "=")
	if !strings.HasPrefix(word, "--") {
		for letters := word[1:]; letters != ""; letters = letters[1:] {
			takes, matters, known := curlTakes(letters[:1])
			switch {
			case !known:
				return 0, unknown("-" + letters[:1])
			case !takes:
				if err := c.set(letters[:1], "", open, matters); err != nil {
					return 0, err
				}
				continue
			case len(letters) > 1:
				return 0, c.set(letters[:1], letters[1:], open, matters)
			case len(next) == 0 || next[0] == newline:
				return 0, fmt.Errorf("-%s: its value is missing", letters)
			}
			return 1, c.set(letters[:1], next[0], open, matters)
		}
		return 0, nil
	}
	takes, matters, known := curlTakes(name)
	switch {
	case !known || given && !takes || len(name) == 1:
		return 0, unknown(word)
	case takes && !given && (len(next) == 0 || next[0] == newline):
		return 0, fmt.Errorf("--%s: its value is missing", name)
	case takes && !given:
		value, n = next[0], 1
	}
	return n, c.set(name, value, open, matters)
}

func unknown(option string) error {
	return fmt.Errorf("%s of curl cannot be honoured; leave it out, or give the request with -m, -H and -b", option)
}

// set sets what an option says.
func (c *command) set(name, value string, open Opener, matters bool) error {
	if !matters {
		return nil
	}
	field := func(name, value string) { c.Header = append(c.Header, spec.Field{Name: name, Value: value}) }
	switch name {
	case "X", "request":
		c.method = value
	case "H", "header":
		name, value, found := strings.Cut(value, ":")
		if found && !sent(name) {
			field(strings.TrimSpace(name), strings.TrimSpace(value))
		}
		if found && strings.EqualFold(name, "host") {
			field("Host", strings.TrimSpace(value))
		}
	case "d", "data", "data-ascii", "data-binary", "data-raw", "json", "data-urlencode":
		return c.addData(name, value, open)
	case "u", "user":
		field("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(value)))
	case "oauth2-bearer":
		field("Authorization", "Bearer "+value)
	case "A", "user-agent":
		field("User-Agent", value)
	case "e", "referer":
		field("Referer", value)
	case "b", "cookie":
		if !strings.Contains(value, "=") {
			return fmt.Errorf("-b %s: a file of cookies; give them as name=value", value)
		}
		field("Cookie", value)
	case "url":
		c.urls = append(c.urls, value)
	case "G", "get":
		c.get = true
	case "I", "head":
		c.head = true
	case "compressed":
		field("Accept-Encoding", "deflate, gzip, br, zstd")
	default:
		flag, text := curlFlag(name, value)
		c.flags[flag] = text
	}
	return nil
}

// curlFlag is the flag of ceiling run that does the same.
func curlFlag(name, value string) (flag, text string) {
	switch name {
	case "k", "insecure":
		return "insecure", "true"
	case "E":
		return "cert", value
	case "unix-socket":
		return "unix", value
	case "L", "location":
		return "location", "true"
	case "x":
		return "proxy", value
	case "m", "max-time":
		return "timeout", value + "s"
	case "http1.1":
		return "http", spec.HTTP11
	case "http2", "http2-prior-knowledge":
		return "http", spec.HTTP2
	}
	return name, value // cacert, cert, key, resolve
}

// addData adds a part of the body.
func (c *command) addData(name, value string, open Opener) error {
	if name == "json" {
		c.json = true
	}
	if file, is := strings.CutPrefix(value, "@"); is && name != "data-raw" && name != "data-urlencode" {
		b, err := open(file)
		if err != nil {
			return err
		}
		value = string(b)
		if name == "d" || name == "data" || name == "data-ascii" { // curl takes line ends out of these
			value = strings.NewReplacer("\r", "", "\n", "").Replace(value)
		}
	}
	if name == "data-urlencode" {
		key, text, named := strings.Cut(value, "=")
		switch {
		case strings.Contains(value, "@"):
			return fmt.Errorf("--data-urlencode %s: a file; give the text", value)
		case named && key != "":
			value = key + "=" + url.QueryEscape(text)
		default:
			value = url.QueryEscape(strings.TrimPrefix(value, "="))
		}
	}
	c.data = append(c.data, value)
	return nil
}

// finish makes the requests of a command.
func (c *command) finish(s *Set) error {
	if len(c.urls) == 0 {
		return errors.New("curl without a URL")
	}
	has := func(name string) bool {
		for _, f := range c.Header {
			if strings.EqualFold(f.Name, name) {
				return true
			}
		}
		return false
	}
	join := "&"
	if c.json {
		join = ""
	}
	body := strings.Join(c.data, join)
	c.Method = "GET"
	switch {
	case c.get, c.data == nil:
	case c.json && !has("Content-Type"):
		c.Header = append(c.Header, spec.Field{Name: "Content-Type", Value: "application/json"}, spec.Field{Name: "Accept", Value: "application/json"})
	case !has("Content-Type"):
		c.Header = append(c.Header, spec.Field{Name: "Content-Type", Value: "application/x-www-form-urlencoded"})
	}
	if c.data != nil && !c.get {
		c.Method, c.Body = "POST", []byte(body)
	}
	if c.head {
		c.Method = "HEAD"
	}
	if c.method != "" {
		c.Method = c.method
	}
	for _, address := range c.urls {
		r := c.Request
		if !strings.Contains(address, "://") {
			address = "http://" + address
		}
		if c.get && body != "" {
			mark := "?"
			if strings.Contains(address, "?") {
				mark = "&"
			}
			address += mark + body
		}
		r.URL = address
		s.Requests = append(s.Requests, r)
	}
	return nil
}
