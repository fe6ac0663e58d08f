//go:build linux

package run

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"ceiling/experiment/borrowed"
	"ceiling/experiment/spec"
	"ceiling/internal/needs"
)

// TestCurlSendsTheSame makes random command lines of curl, has bash and curl send them to a server that
// keeps the bytes, and compares these with what ours sends of the same text. CURL_LINES=100000 makes so
// many.
func TestCurlSendsTheSame(t *testing.T) {
	needs.Program(t, "curl", "bash")
	lines, err := strconv.Atoi(os.Getenv("CURL_LINES"))
	if err != nil {
		lines = 200
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"f.txt": "a b\r\nc\n", "g.html": "<p>é\n", "h": "\x00\xff\n", "i.PNG": "",
		"fields": "X-File: one\r\n\nAccept:\nX-Two;\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const batch, workers = 50, 2
	var wait sync.WaitGroup
	for w := range workers {
		wait.Go(func() {
			s := recordRequests(t)
			for from := w * batch; from < lines && !t.Failed(); from += batch * workers {
				var list []string
				for i := from; i < min(from+batch, lines); i++ {
					list = append(list, newCurlLine(uint64(i), s.Addr().String()))
				}
				s.compare(t, dir, list)
			}
		})
	}
	wait.Wait()
}

// Every option that curl has is known, and whether it has a value.
func TestCurlOptionsAreKnown(t *testing.T) {
	needs.Program(t, "curl")
	help, err := exec.Command("curl", "--help", "all").Output()
	if err != nil {
		t.Fatal(err)
	}
	option, seen := regexp.MustCompile(`(?m)^ (?:(-.),|   ) (--[a-z0-9.-]+)( [<\[])?`), 0
	for _, found := range option.FindAllStringSubmatch(string(help), -1) {
		for _, name := range found[1:3] {
			if name == "" {
				continue
			}
			seen++
			_, err := borrowed.Curl("curl "+name, nil)
			said := fmt.Sprint(err)
			if strings.Contains(said, "not known") || !strings.Contains(said, "cannot be honoured") && (found[3] != "") != strings.Contains(said, "its value is missing") {
				t.Errorf("%s: %s", found[0], said)
			}
		}
	}
	if seen < 250 {
		t.Errorf("%d options in curl --help all", seen)
	}
}

// requestRecorder keeps requests, and answers each with an empty response.
type requestRecorder struct {
	net.Listener
	sync.Mutex
	got [][]byte
}

func recordRequests(t *testing.T) *requestRecorder {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Error(err)
	}
	s := &requestRecorder{Listener: l}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go s.serve(c)
		}
	}()
	return s
}

func (s *requestRecorder) serve(c net.Conn) {
	defer c.Close()
	in := bufio.NewReader(c)
	for {
		var b []byte
		length, chunked := 0, false
		for !bytes.HasSuffix(b, []byte("\r\n\r\n")) {
			line, err := in.ReadBytes('\n')
			if err != nil {
				return
			}
			b = append(b, line...)
			name, value, _ := strings.Cut(strings.ToLower(strings.TrimSpace(string(line))), ":")
			if name == "content-length" {
				length, _ = strconv.Atoi(strings.TrimSpace(value))
			}
			chunked = chunked || name == "transfer-encoding"
		}
		body := make([]byte, length)
		_, err := io.ReadFull(in, body)
		for chunked && err == nil && !bytes.HasSuffix(body, []byte("0\r\n\r\n")) {
			var one byte
			one, err = in.ReadByte()
			body = append(body, one)
		}
		if err != nil {
			return
		}
		s.Lock()
		s.got = append(s.got, append(b, body...))
		s.Unlock()
		if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"); err != nil {
			return
		}
	}
}

// send has one curl send the requests of some lines, and returns them.
func (s *requestRecorder) send(dir string, lines []string) (got [][]byte, err error) {
	script := "curl -q -sS " + strings.Join(lines, " --next ")
	c := exec.Command("bash", "-c", script)
	c.Dir, c.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8", "HOME=" + dir}
	c.WaitDelay = time.Second
	var said bytes.Buffer
	c.Stderr = &said
	if err = c.Run(); err != nil {
		err = fmt.Errorf("%w: %s", err, said.String())
	}
	s.Lock()
	defer s.Unlock()
	got, s.got = s.got, nil
	return got, err
}

// compare has curl and ours send the requests of some lines.
func (s *requestRecorder) compare(t *testing.T, dir string, lines []string) {
	got, err := s.send(dir, lines)
	if len(got) != len(lines) || err != nil {
		if len(lines) > 1 {
			for _, line := range lines {
				s.compare(t, dir, []string{line})
			}
		}
		t.Errorf("curl %.3000s\n%d requests, %v", lines, len(got), err)
		return
	}
	open := func(name string) ([]byte, error) { return os.ReadFile(filepath.Join(dir, name)) }
	for i, line := range lines {
		set, err := borrowed.Curl("curl "+line, open)
		if err != nil {
			t.Errorf("curl %s: %v", line, err)
			continue
		}
		targets, err := set.Targets("curl")
		if err != nil {
			t.Errorf("curl %s: %v", line, err)
			continue
		}
		mix, err := requests(&spec.Spec{Targets: targets})
		if err != nil {
			t.Errorf("curl %s: %v", line, err)
			continue
		}
		if want, have := asSent(got[i]), asSent(mix[0].Bytes); want != have {
			t.Errorf("curl %s\nits: %q\nours %q", line, want, have)
		}
	}
}

var (
	ofCurl   = regexp.MustCompile(`(?m)^User-Agent: curl/[0-9.]+$`)
	codings  = regexp.MustCompile(`(?m)^Accept-Encoding: deflate, gzip(, br)?(, zstd)?$`)
	boundary = regexp.MustCompile(`boundary=(-{24}\w+)`)
	percent  = regexp.MustCompile(`%[0-9a-fA-F]{2}`)
)

// asSent is a request without what may differ: the version and the codings of a curl, the random
// end of its boundary, blanks around the values of fields, the case of
// percent-encodings (curl's own differs by version), and the place of Content-Length, which says
// what the body has.
func asSent(request []byte) string {
	head, body, _ := strings.Cut(string(request), "\r\n\r\n")
	var lines []string
	for line := range strings.SplitSeq(head, "\r\n") {
		name, value, isField := strings.Cut(line, ":")
		switch {
		case lines == nil:
			lines = append(lines, percent.ReplaceAllStringFunc(line, strings.ToUpper))
		case !isField:
			lines = append(lines, line)
		case !strings.EqualFold(name, "Content-Length"):
			lines = append(lines, name+": "+strings.Trim(value, " \t"))
		case strings.TrimSpace(value) != strconv.Itoa(len(body)):
			lines = append(lines, line+" is wrong")
		}
	}
	head = codings.ReplaceAllString(ofCurl.ReplaceAllString(strings.Join(lines, "\n"), "of curl"), "codings")
	if found := boundary.FindStringSubmatch(head); found != nil {
		head, body = strings.ReplaceAll(head, found[1], "BOUNDARY"), strings.ReplaceAll(body, found[1], "BOUNDARY")
	}
	return head + "\n\n" + body
}

// curlLine writes a command line.
type curlLine struct {
	*rand.Rand
}

func newCurlLine(seed uint64, address string) string {
	l := &curlLine{Rand: rand.New(rand.NewPCG(seed, 48))}
	glob := l.one("", "", "-g")
	groups := [][]string{{l.url(address, glob == "")}}
	if glob != "" {
		groups = append(groups, []string{l.one("-g", "--globoff")})
	}
	add := func(words ...string) { groups = append(groups, words) }
	body := l.one("", "", "data", "data", "json", "form", "get", "head")
	for range l.IntN(4) {
		if field := l.field(body == "form"); field != "" {
			add(l.option("H", "header", field)...)
		}
	}
	for range l.IntN(3) {
		add(l.extra(body)...)
	}
	switch body {
	case "data", "get":
		for range 1 + l.IntN(3) {
			if body == "get" { // what a URL may have
				add(l.option("d", "data", l.one("", "a", "b=c", "x=%2f", "'\"", "$", "&", "?/../"))...)
				add(l.query("data-urlencode")...)
				continue
			}
			add(l.data()...)
		}
		if body == "get" {
			add(l.one("-G", "--get"))
		}
	case "json":
		add(l.option("", "json", strings.TrimLeft(l.text(8), "@"))...)
		if l.IntN(3) == 0 {
			add(l.data()...)
		}
	case "form":
		for range 1 + l.IntN(3) {
			add(l.form()...)
		}
	case "head":
		add(l.one("-I", "--head"))
	}
	l.Shuffle(len(groups), func(i, j int) { groups[i], groups[j] = groups[j], groups[i] })
	return strings.Join(slices.Concat(groups...), l.one(" ", "  ", " \\\n  ", "\t"))
}

func (l *curlLine) one(list ...string) string { return list[l.IntN(len(list))] }

// option spells an option with a value in one of the ways that curl has for it.
func (l *curlLine) option(letter, name, value string) []string {
	switch way := l.IntN(4); {
	case letter == "" || way == 0:
		return []string{"--" + name, l.quote(value)}
	case way == 1 && value != "":
		return []string{"-" + letter + l.quote(value)}
	case way == 2:
		return []string{"-sS" + letter, l.quote(value)}
	}
	return []string{"-" + letter, l.quote(value)}
}

// text is of characters that the shell, curl or HTTP have a use for.
func (l *curlLine) text(most int) string {
	list := []string{"a", "B", "7", "f", " ", "'", `"`, `\`, "$", "`", "!", "%", "%41", "+", "&", "=", ";", "#", "(", "|", "<", "*", "?", "~", "^",
		"{", "}", "[", ",", ":", "/", "-", "é", "漢", "😀", "\n", "\r", "\t", "\x01", "\x1b", "\x7f", "\x80", "\xff", "$a", "@", ".."}
	var b strings.Builder
	for range l.IntN(most) {
		b.WriteString(l.one(list...))
	}
	return b.String()
}

// visible is text that a field's value may have.
func (l *curlLine) visible(most int) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == utf8.RuneError {
			return -1
		}
		return r
	}, l.text(most)))
}

func (l *curlLine) url(address string, globs bool) string {
	var b strings.Builder
	b.WriteString(l.one("http://", "") + address)
	for range l.IntN(5) {
		b.WriteString("/" + l.one("a", "b", "", ".", "..", "...", "a;b", "x=1", "%41", ".a", "'", `"`, "$", "(", "|", "^", "`", "~", "*", "@", ":"))
	}
	if l.IntN(3) == 0 {
		mark := l.one("[", "]", "{", "}")
		if globs {
			mark = `\` + mark
		}
		b.WriteString("/" + mark)
	}
	if l.IntN(2) == 0 {
		b.WriteString("?" + l.one("", "a=b", "a=b&", "/../x", "a=%20&b='\"", "?", "a+b", "$a&`b`"))
	}
	return l.quote(b.String() + l.one("", "", "#", "#x?y"))
}

func (l *curlLine) field(form bool) string {
	name := l.one("X-A", "x-b", "Accept", "User-Agent", "Host", "Referer", "cookie", "Accept-Encoding", "Authorization", "X!#$%&'*+.^_`|~")
	value := l.visible(8)
	switch l.IntN(12) {
	case 0:
		return "@fields"
	case 1:
		return "Plain"
	case 2:
		if form {
			return "Content-Type: multipart/form-data"
		}
		return l.one("Content-Type: a/b; c=d", "content-type:", "Transfer-Encoding:", "Expect:")
	case 3, 4:
		if name != "Host" {
			return name + l.one(":", ": ", ";", "; ", ":\t")
		}
	}
	if name == "Host" {
		value = l.one("h", "h.example:81")
	}
	if value == "" {
		return ""
	}
	return name + l.one(":", ": ", ":  ", ":\t") + value + l.one("", " ")
}

// extra is an option beside the body's.
func (l *curlLine) extra(body string) []string {
	switch l.IntN(12) {
	case 0:
		return l.option("X", "request", l.one("PUT", "DELETE", "PATCH", "OPTIONS", "patch", "X-Y"))
	case 1:
		return l.option("u", "user", l.text(5)+":"+l.text(5))
	case 2:
		return l.option("A", "user-agent", l.visible(6))
	case 3:
		return l.option("e", "referer", l.visible(6)+l.one("", ";auto"))
	case 4:
		return l.option("b", "cookie", "a="+l.visible(5))
	case 5:
		if body == "" || body == "head" {
			return l.option("r", "range", l.one("5", "0-4", "-3", "1-,4-5"))
		}
	case 6:
		return []string{"--compressed"}
	case 7:
		return l.option("", "oauth2-bearer", "t"+l.visible(4))
	case 8:
		if body != "get" {
			return l.query("url-query")
		}
	case 9:
		return []string{l.one("-k", "-i", "-L", "--http1.1", "-sS", "--no-keepalive", "--no-silent", "-N", "--fail")}
	case 10:
		return l.option("", l.one("retry", "max-redirs", "connect-timeout", "max-time"), l.one("3", "20"))
	}
	return l.option("o", "output", "/dev/null")
}

// query is an option whose value is encoded.
func (l *curlLine) query(name string) []string {
	value := l.one("=", "n=", "%n'=") + l.text(6)
	switch l.IntN(4) {
	case 0:
		value = l.one("@", "n@") + l.one("f.txt", "g.html", "i.PNG")
	case 1:
		value = strings.NewReplacer("=", "", "@", "", "+", "").Replace(value)
	}
	if name == "url-query" && l.IntN(4) == 0 {
		value = "+" + l.one("a", "%20", "b=c&d", "x/../y")
	}
	return l.option("", name, value)
}

func (l *curlLine) data() []string {
	value := l.text(8)
	switch l.IntN(4) {
	case 0:
		return l.query("data-urlencode")
	case 1:
		value = "@" + l.one("f.txt", "g.html", "i.PNG")
	default:
		value = strings.TrimLeft(value, "@")
	}
	switch l.IntN(4) {
	case 0:
		return l.option("", "data-raw", value)
	case 1:
		return l.option("", "data-binary", value)
	case 2:
		return l.option("", "data-ascii", value)
	}
	return l.option("d", "data", value)
}

func (l *curlLine) form() []string {
	name := strings.ReplaceAll(l.text(4), "=", "") + l.one("a", `"`)
	plain := strings.NewReplacer(";", "", ",", "", "\"", "", "\t", "").Replace(l.text(6))
	value := strings.TrimLeft(plain, "@<( \r\n")
	switch l.IntN(5) {
	case 0:
		return l.option("", "form-string", name+"="+l.text(8))
	case 1:
		value = l.one("@", "<") + l.one("f.txt", "g.html", "h", "i.PNG")
	case 2:
		value = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(l.text(6)) + `"`
	}
	value = strings.TrimRight(value, " \r\n")
	value += l.one("", "", ";type=text/x", "; type=a/b; charset=utf-8", ";type=a/b;c=d;filename=e.html")
	value += l.one("", "", ";filename=x.txt", `;filename="a;b\".pdf"`, ";filename= y ")
	return l.option("F", "form", name+"="+value)
}

// quote writes a text in the shell's language: parts of it, each in one of its ways.
func (l *curlLine) quote(text string) string {
	if text == "" {
		return l.one("''", `""`, "$''")
	}
	var b strings.Builder
	for text != "" {
		n := 1 + l.IntN(min(len(text), 6))
		for n < len(text) && text[n]&0xc0 == 0x80 { // whole characters
			n++
		}
		part := text[:n]
		text = text[n:]
		switch way := l.IntN(4); {
		case way == 0 && !strings.Contains(part, "'"):
			b.WriteString("'" + part + "'")
		case way == 1:
			b.WriteString(`"` + strings.NewReplacer(`"`, `\"`, `\`, `\\`, "$", `\$`, "`", "\\`").Replace(part) + `"`)
		case way == 2 && !strings.ContainsAny(part, "\r\n"):
			b.WriteString(regexp.MustCompile(`[^A-Za-z0-9/.\x80-\x{10ffff}]`).ReplaceAllString(part, `\$0`))
		default:
			b.WriteString("$'" + l.ansiC(part) + "'")
		}
	}
	return b.String()
}

// ansiC writes a text with escapes.
func (l *curlLine) ansiC(text string) string {
	var b strings.Builder
	for at := 0; at < len(text); {
		r, n := utf8.DecodeRuneInString(text[at:])
		c := text[at]
		i := strings.IndexByte("\a\b\x1b\f\n\r\t\v\\'\"?", c)
		switch way := l.IntN(6); {
		case way == 0 && i >= 0:
			b.WriteString(`\` + string("abefnrtv\\'\"?"[i]))
		case way == 1 && r != utf8.RuneError && r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		case way == 2 && r != utf8.RuneError:
			fmt.Fprintf(&b, `\U%08X`, r)
		case way == 3 && n == 1:
			fmt.Fprintf(&b, `\x%02x`, c)
		case way == 4 && n == 1:
			fmt.Fprintf(&b, `\%03o`, c)
		case way == 5 && c > 0 && c < 0x1b:
			b.WriteString(`\c` + string(c|0x60))
		case c == '\'' || c == '\\':
			b.WriteString(`\` + string(c))
		default:
			b.WriteString(text[at : at+n])
		}
		at += n
	}
	return b.String()
}
