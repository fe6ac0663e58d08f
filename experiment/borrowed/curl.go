package borrowed

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"ceiling/experiment/spec"
)

// readCurls reads curl command lines, each of which may go on behind a backslash at the end of a line.
func readCurls(text string, open Opener) (*Set, error) {
	s, options := &Set{Flags: map[string]string{}}, curlOptions()
	commands, err := split(text)
	for _, words := range commands {
		if err == nil {
			err = s.addCurl(words, open, options)
		}
	}
	repeats := func(t spec.Target) bool { return t.Method != "GET" && t.Method != "HEAD" }
	if i := slices.IndexFunc(s.Requests, repeats); i >= 0 && s.Flags["location"] != "" {
		delete(s.Flags, "location")
		s.Left = append(s.Left, "--location: redirects are not followed, for a "+s.Requests[i].Method+" may not be sent twice")
	}
	return s, err
}

// Curl reads one command line.
func Curl(text string, open Opener) (*Set, error) {
	s, err := readCurls(text, open)
	if err == nil && len(s.Requests) != 1 {
		err = fmt.Errorf("%d URLs; give one, or a file of curl lines to --targets", len(s.Requests))
	}
	return s, err
}

// command is a curl command line as it is read.
type command struct {
	spec.Target
	options map[string]option
	open    Opener
	flags   map[string]string
	urls    []string
	method  string
	// fields that options set, by name; own has the names that -H gives or takes away.
	fields map[string]string
	own    map[string]bool
	query  []string // of --url-query
	data   []string
	form   []part
	// on has the options without a value that finish looks at.
	on map[string]bool
}

// curlAgent is what curl calls itself: servers answer it otherwise than a browser.
const curlAgent = "curl/8.14.1"

// curlBoundary parts multipart bodies; curl's has random letters at its end.
const curlBoundary = "------------------------c0f3a1d5b7e92468"

// addCurl reads a command's words.
func (s *Set) addCurl(words []string, open Opener, options map[string]option) error {
	if words[0] != "curl" {
		return fmt.Errorf("%.20q is not a curl command; begin it with curl, as in curl -H 'Accept: text/html' http://127.0.0.1:8080/", words[0])
	}
	c := command{options: options, open: open, flags: s.Flags, own: map[string]bool{}, on: map[string]bool{},
		fields: map[string]string{"User-Agent": curlAgent, "Accept": "*/*"}}
	for words = words[1:]; len(words) > 0; {
		word := words[0]
		words = words[1:]
		if len(word) < 2 || word[0] != '-' {
			c.urls = append(c.urls, word)
			continue
		}
		var err error
		if words, err = c.option(word, words); err != nil {
			return err
		}
	}
	return c.finish(s)
}

// option reads an option, or letters that stand together, and returns the words after it and its value.
func (c *command) option(word string, next []string) ([]string, error) {
	name, value, given := strings.Cut(strings.TrimPrefix(word, "--"), "=")
	letters := ""
	if !strings.HasPrefix(word, "--") {
		name, letters = word[1:2], word[2:]
		value, given = letters, letters != ""
	}
	o := c.options[name]
	if base := c.options[strings.TrimPrefix(name, "no-")]; o.does == unknown && base.does == idle && !base.value {
		o = base
	}
	dashed := word[:len(word)-len(letters)]
	switch {
	case o.does == unknown, strings.HasPrefix(word, "--") && (len(name) == 1 || given && !o.value):
		return nil, fmt.Errorf("curl's %s is not known; remove it, or write it as curl's manual does", dashed)
	case o.does == refused:
		return nil, fmt.Errorf("%s of curl cannot be honoured; remove it, or give the request with -m, -H and -b", dashed)
	case o.value && !given && len(next) == 0:
		return nil, fmt.Errorf("%s: its value is missing", dashed)
	case o.value && !given:
		value, next = next[0], next[1:]
	case !o.value:
		value = ""
	}
	if o.does == applied {
		if err := c.set(o.name, value); err != nil {
			return nil, err
		}
	}
	if !o.value && letters != "" {
		return c.option("-"+letters, next)
	}
	return next, nil
}

// set does what an option says.
func (c *command) set(name, value string) error {
	switch name {
	case "request":
		c.method = value
	case "header":
		return c.addFields(value)
	case "data", "data-ascii", "data-binary", "data-raw", "json", "data-urlencode", "url-query":
		return c.addData(name, value)
	case "form", "form-string":
		return c.addForm(name, value)
	case "user":
		if !strings.Contains(value, ":") {
			return fmt.Errorf("-u %s: curl asks for the password; write it behind a colon", value)
		}
		if !strings.HasPrefix(c.fields["Authorization"], "Bearer ") {
			c.fields["Authorization"] = spec.Basic(value)
		}
	case "oauth2-bearer":
		c.fields["Authorization"] = "Bearer " + value
	case "user-agent":
		c.fields["User-Agent"] = value
	case "referer":
		c.fields["Referer"] = strings.TrimSuffix(value, ";auto")
	case "cookie":
		if value != "" && !strings.Contains(value, "=") {
			return fmt.Errorf("-b %s: a file of cookies; give them as name=value", value)
		}
		c.fields["Cookie"] = strings.TrimPrefix(c.fields["Cookie"]+";"+value, ";")
	case "range":
		if !strings.Contains(value, "-") {
			value += "-"
		}
		c.fields["Range"] = "bytes=" + value
	case "compressed":
		c.fields["Accept-Encoding"] = "deflate, gzip, br, zstd"
	case "url":
		c.urls = append(c.urls, value)
	case "get", "head", "globoff", "path-as-is":
		c.on[name] = true
	case "http2":
		c.on[name] = true
		fallthrough
	default:
		flag, text := curlFlag(name, value)
		if name == "resolve" && c.flags[flag] != "" && c.flags[flag] != value {
			return fmt.Errorf("--resolve %s: a second one; remove the one that is not for the URL's host", value)
		}
		c.flags[flag] = text
	}
	return nil
}

// curlFlag is the flag of ceiling run that does the same.
func curlFlag(name, value string) (flag, text string) {
	switch name {
	case "insecure", "location":
		return name, "true"
	case "unix-socket":
		return "unix", value
	case "max-time":
		return "timeout", value + "s"
	case "http1.1":
		return "http", spec.HTTP11
	case "http2", "http2-prior-knowledge":
		return "http", spec.HTTP2
	case "tlsv1.3":
		return "tls-version", "1.3"
	}
	return name, value // cacert, cert, ciphers, curves, key, proxy, resolve
}

// addFields adds a header field, or those of a file.
func (c *command) addFields(text string) error {
	file, isFile := strings.CutPrefix(text, "@")
	if !isFile {
		return c.addField(text)
	}
	b, err := c.open(file)
	for line := range strings.Lines(string(b)) {
		if err == nil {
			err = c.addField(strings.TrimRight(line, "\r\n"))
		}
	}
	return err
}

// addField adds a field as curl does: "Name:" takes curl's own away, "Name;" is sent without a value, and
// what is none of these and not "Name: value" is not sent.
func (c *command) addField(text string) error {
	end := strings.IndexByte(text, ':')
	if end < 0 {
		end = strings.IndexByte(text, ';')
	}
	if end < 0 {
		return nil
	}
	value := strings.Trim(text[end+1:], " \t")
	key := strings.ToLower(text[:end])
	switch sends := text[end:] == ";" || text[end] == ':' && strings.TrimSpace(value) != ""; {
	case key == "host" && value == "":
		return fmt.Errorf("-H %s: a request has a Host; remove it", text)
	case sends && (key != "host" || !c.own[key]):
		c.Header = append(c.Header, spec.Field{Name: text[:end], Value: value})
	}
	c.own[key] = true
	return nil
}

// addData adds a part of the body, or of the query.
func (c *command) addData(name, value string) error {
	at := strings.IndexByte(value, '=')
	if at < 0 {
		at = strings.IndexByte(value, '@')
	}
	file, isFile := strings.CutPrefix(value, "@")
	encoded := name == "data-urlencode" || name == "url-query"
	if encoded {
		isFile, file = at >= 0 && value[at] == '@', value[at+1:]
	}
	text := file
	if isFile && name != "data-raw" {
		b, err := c.open(file)
		if err != nil {
			return err
		}
		if text = string(b); name == "data" || name == "data-ascii" { // curl takes these out
			text = strings.NewReplacer("\r", "", "\n", "", "\x00", "").Replace(text)
		}
	}
	switch {
	case name == "url-query" && strings.HasPrefix(value, "+"):
		value = value[1:]
	case encoded && at > 0 && (text != "" || !isFile): // of an empty file curl sends not even the name
		value = value[:at] + "=" + url.QueryEscape(text)
	case encoded:
		value = url.QueryEscape(text)
	case isFile && name != "data-raw":
		value = text
	}
	switch {
	case name == "url-query":
		if c.query != nil {
			value = "&" + value
		}
		c.query = append(c.query, value)
		return nil
	case name == "json":
		c.on[name] = true
	case c.data != nil:
		value = "&" + value
	}
	c.data = append(c.data, value)
	return nil
}

// finish makes the requests of a command.
func (c *command) finish(s *Set) error {
	get, kind := c.on["get"], ""
	switch {
	case c.urls == nil:
		return errors.New("curl without a URL")
	case c.form != nil && c.data != nil, c.query != nil && get, (get || c.on["head"]) && c.form != nil, c.on["head"] && c.data != nil && !get,
		c.fields["Range"] != "" && (c.form != nil || c.data != nil && !get):
		return errors.New("two of -d, -F, -G, -I, -r and --url-query that exclude each other")
	case c.form != nil:
		typed := func(f spec.Field) bool { return strings.EqualFold(f.Name, "Content-Type") }
		n := len(c.Header)
		c.Header = slices.DeleteFunc(c.Header, func(f spec.Field) bool { return typed(f) && f.Value == "multipart/form-data" })
		if c.own["content-type"] && (n == len(c.Header) || slices.ContainsFunc(c.Header, typed)) {
			return errors.New("-F: with a Content-Type other than multipart/form-data; remove the field")
		}
		delete(c.own, "content-type")
		kind = "multipart/form-data; boundary=" + curlBoundary
		var err error
		if c.Body, err = multipartOf(c.form, curlBoundary); err != nil {
			return err
		}
	case get:
		c.query = c.data
	case c.data != nil:
		kind, c.Body = "application/x-www-form-urlencoded", []byte(strings.Join(c.data, ""))
	}
	c.Method = "GET"
	switch {
	case c.method != "":
		c.Method = c.method
	case c.on["head"]:
		c.Method = "HEAD"
	case kind != "":
		c.Method = "POST"
	}
	c.order(kind)
	for _, text := range c.urls {
		r := c.Target
		var err error
		if r.URL, err = c.address(text); err != nil {
			return err
		}
		if c.on["http2"] && !strings.HasPrefix(r.URL, "https:") {
			return errors.New("--http2: over http:// curl asks for an upgrade; give --http2-prior-knowledge, or --http1.1")
		}
		s.Requests = append(s.Requests, r)
	}
	return nil
}

// order puts the fields into curl's order. kind is the type of the body.
func (c *command) order(kind string) {
	given := c.Header
	isHost := func(f spec.Field) bool { return strings.EqualFold(f.Name, "Host") }
	c.Header = nil
	if i := slices.IndexFunc(given, isHost); i >= 0 {
		c.Header = append(c.Header, given[i])
	}
	add := func(name, value string) {
		if value != "" && !c.own[strings.ToLower(name)] {
			c.Header = append(c.Header, spec.Field{Name: name, Value: value})
		}
	}
	isJSON := ""
	if c.on["json"] {
		isJSON, c.fields["Accept"], kind = "application/json", "", ""
	}
	for _, name := range []string{"Authorization", "Range", "User-Agent", "Accept", "Accept-Encoding", "Referer", "Cookie"} {
		add(name, c.fields[name])
	}
	c.Header = append(c.Header, slices.DeleteFunc(given, isHost)...)
	add("Content-Type", isJSON)
	add("Accept", isJSON)
	add("Content-Type", kind)
}
