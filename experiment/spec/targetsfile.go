package spec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	// TargetsFileMax limits a targets file, in bytes.
	TargetsFileMax = 64 << 20
	// TargetsMax limits the targets of a run; the generator keeps every request in memory, ready
	// to send.
	TargetsMax = 100_000
	// BodiesMax limits the sum of all targets' bodies, in bytes, for the same reason; a body used
	// by two targets counts twice.
	BodiesMax = 64 << 20
	// RoundMax limits the requests of one round of a mix, in which each target has its weight: the
	// generator lays it out in memory.
	RoundMax = 4_000_000
	// WeightMax limits a target's weight, so that no sum over TargetsMax of them overflows.
	WeightMax = 1_000_000
)

// ReadTargets reads targets in either of vegeta's formats, distinguished by the first non-blank
// character: '{' is JSON.
//
// HTTP: a line "METHOD URL", then lines "Name: value", then optionally a line "@bodyfile", which
// ends the target as a blank line or the next "METHOD URL" does. Lines that begin with # are
// comments. A comment "# weight: 3" directly above a METHOD line gives that target three times
// the share of one without; vegeta ignores it like any comment.
//
// JSON: one object per line, {"method": "POST", "url": "http://…", "header": {"Name": ["value"]},
// "body": "base64", "weight": 3}; header fields keep their order.
//
// Both: a weight is an integer from 1 to WeightMax, by default 1; equal requests are one target with
// the sum of their weights. name identifies the file in errors, which read "NAME:LINE: what is wrong,
// and how it should look". dir is the directory of relative body files.
func ReadTargets(r io.Reader, name, dir string) ([]Target, error) {
	data, err := ReadAtMost(r, TargetsFileMax, name)
	if err != nil {
		return nil, err
	}
	open := func(file string) ([]byte, error) {
		if !filepath.IsAbs(file) {
			file = filepath.Join(dir, file)
		}
		return readFile(file, BodyMax, "body")
	}
	return parseTargets(data, name, open)
}

// targetsParser parses a targets file line by line.
type targetsParser struct {
	name string
	read func(file string) ([]byte, error)

	line      int     // current line number, from 1
	lines     []int   // of the targets
	first     Address // of the targets
	targets   []Target
	open      bool // the last target may still take header fields and a body
	weight    int  // from a comment, for the next target; 0 for none
	weightAt  int  // line of that comment
	bodies    map[string][]byte
	bodyBytes int
}

func parseTargets(data []byte, name string, read func(string) ([]byte, error)) ([]Target, error) {
	p := &targetsParser{name: name, read: read, bodies: map[string][]byte{}}
	take := p.httpLine
	if start := bytes.TrimLeft(data, " \t\r\n\ufeff"); len(start) > 0 && start[0] == '{' {
		take = p.jsonLine
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	for line := range bytes.SplitSeq(data, []byte("\n")) {
		p.line++
		if err := take(bytes.TrimSpace(line)); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, p.line, err)
		}
	}
	if p.weight != 0 {
		return nil, fmt.Errorf("%s:%d: no target follows the weight; put it on the line above METHOD URL", name, p.weightAt)
	}
	return p.finish()
}

// TargetsOf checks and joins requests that another program wrote, as ReadTargets does those of a file;
// errors have their numbers.
func TargetsOf(list []Target, name string) ([]Target, error) {
	p := &targetsParser{name: name}
	for _, t := range list {
		p.line++
		err := p.countBody(len(t.Body))
		if err == nil {
			err = p.add(t)
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, p.line, err)
		}
	}
	return p.finish()
}

// finish checks the targets, and joins equal ones.
func (p *targetsParser) finish() ([]Target, error) {
	if len(p.targets) == 0 {
		return nil, fmt.Errorf("%s: no target in it; write a line such as GET http://localhost:8080/", p.name)
	}
	for i := range p.targets {
		if err := p.targets[i].check(); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", p.name, p.lines[i], err)
		}
	}
	targets := joined(p.targets)
	if err := checkRound(targets); err != nil {
		return nil, fmt.Errorf("%s: %w", p.name, err)
	}
	return targets, nil
}

// joined makes equal requests one target with the sum of their weights: a list of URLs from an
// access log names some of them often.
func joined(targets []Target) []Target {
	var out []Target
	at := map[string]int{}
	for _, t := range targets {
		key := sameAs(&t)
		if i, seen := at[key]; seen && out[i].Weight+t.Weight <= WeightMax {
			out[i].Weight += t.Weight
			continue
		}
		at[key] = len(out)
		out = append(out, t)
	}
	return out
}

// sameAs is equal for two targets if their requests are: no part but the body, which is the last, may
// have a line break.
func sameAs(t *Target) string {
	var b strings.Builder
	b.WriteString(t.Method + " " + t.URL + "\n")
	for _, h := range t.Header {
		b.WriteString(h.Name + ": " + h.Value + "\n")
	}
	b.WriteString("\n")
	b.Write(t.Body)
	return b.String()
}

// checkRound rejects weights whose round, after division by what they have in common, is too long.
func checkRound(targets []Target) error {
	sum, common := 0, 0
	for _, t := range targets {
		sum += t.Weight
		for a, b := common, t.Weight; ; a, b = b, a%b {
			if b == 0 {
				common = a
				break
			}
		}
	}
	if common > 0 && sum/common > RoundMax {
		return fmt.Errorf("one round of the mix has %d requests, as many as its weights add up to; at most %d: give smaller weights",
			sum/common, RoundMax)
	}
	return nil
}

// httpLine parses one line of the HTTP format.
func (p *targetsParser) httpLine(line []byte) error {
	switch text := string(line); {
	case text == "":
		p.open = false
		return nil
	case text[0] == '#':
		return p.comment(text)
	case startsTarget(text):
		return p.requestLine(text)
	case p.weight != 0:
		return errors.New("put the weight on the line above METHOD URL, not before this")
	case text[0] == '@' && p.open:
		return p.bodyLine(text)
	case p.open:
		field, err := ParseField(text)
		if err != nil {
			return err
		}
		last := &p.targets[len(p.targets)-1]
		last.Header = append(last.Header, field)
		return nil
	default:
		return fmt.Errorf("%s does not begin a target; write METHOD URL, as in GET http://localhost:8080/ (header lines and the @bodyfile follow it without a blank line, the @bodyfile last)", quoteShort(text))
	}
}

// comment parses a line that begins with #, which may set a weight.
func (p *targetsParser) comment(text string) error {
	key, value, found := strings.Cut(strings.TrimSpace(strings.TrimLeft(text, "#")), ":")
	if !found || !strings.EqualFold(strings.TrimSpace(key), "weight") {
		return nil
	}
	if p.weight != 0 {
		return fmt.Errorf("a second weight for one target; the first is on line %d", p.weightAt)
	}
	value = strings.TrimSpace(value)
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > WeightMax {
		return fmt.Errorf("weight %s is not a whole number from 1 to %d; write # weight: 3", quoteShort(value), WeightMax)
	}
	p.weight, p.weightAt, p.open = n, p.line, false
	return nil
}

// startsTarget recognises a line that begins with a word of capitals and a blank: a header line
// has a colon after its name.
func startsTarget(text string) bool {
	end := strings.IndexAny(text, " \t")
	if end < 1 {
		return false
	}
	for _, c := range []byte(text[:end]) {
		if c < 'A' || c > 'Z' {
			return false
		}
	}
	return true
}

func (p *targetsParser) requestLine(text string) error {
	words := strings.Fields(text)
	if len(words) != 2 {
		return fmt.Errorf("%d words where METHOD URL are two, as in GET http://localhost:8080/ (a blank in a URL is written %%20)", len(words))
	}
	p.open = true
	target := Target{Method: words[0], URL: words[1], Weight: max(p.weight, 1)}
	p.weight = 0
	return p.add(target)
}

// add appends a target after validating its URL, so that a mistake is reported with its line.
func (p *targetsParser) add(t Target) error {
	if len(p.targets) == TargetsMax {
		return fmt.Errorf("more than %d targets; give fewer, with weights", TargetsMax)
	}
	addr, _, _, err := ParseTarget(t.URL)
	switch {
	case err != nil:
		return err
	case len(p.targets) == 0:
		p.first = addr
	case addr != p.first:
		return addr.notAt(p.first)
	}
	p.targets, p.lines = append(p.targets, t), append(p.lines, p.line)
	return nil
}

func (p *targetsParser) bodyLine(text string) error {
	file := text[1:]
	if file == "" {
		return errors.New("the body file's name is missing; write @file")
	}
	body, known := p.bodies[file]
	if !known {
		var err error
		if body, err = p.read(file); err != nil {
			return err
		}
		p.bodies[file] = body
	}
	p.targets[len(p.targets)-1].Body = body
	p.open = false
	return p.countBody(len(body))
}

func (p *targetsParser) countBody(n int) error {
	if n > BodyMax {
		return fmt.Errorf("a body of %d bytes; at most %d", n, BodyMax)
	}
	if p.bodyBytes += n; p.bodyBytes > BodiesMax {
		return fmt.Errorf("the bodies up to here are more than %d bytes together; give fewer or smaller ones", BodiesMax)
	}
	return nil
}

// jsonTarget is one line of the JSON format.
type jsonTarget struct {
	Method string      `json:"method"`
	URL    string      `json:"url"`
	Header orderedHead `json:"header"`
	Body   []byte      `json:"body"`
	Weight *int        `json:"weight"`
}

// jsonLine parses one line of the JSON format.
func (p *targetsParser) jsonLine(line []byte) error {
	if len(line) == 0 {
		return nil
	}
	const form = `write {"method": "GET", "url": "http://localhost:8080/", "header": {"Name": ["value"]}, "body": "base64", "weight": 1}`
	if !utf8.Valid(line) {
		return fmt.Errorf("not UTF-8, as JSON has to be; %s", form)
	}
	var t jsonTarget
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&t); err != nil {
		return fmt.Errorf("%w; %s", err, form)
	}
	if _, err := dec.Token(); err != io.EOF {
		return fmt.Errorf("something follows the object; one target a line: %s", form)
	}
	target := Target{Method: t.Method, URL: t.URL, Header: t.Header, Body: t.Body, Weight: 1}
	if t.Weight != nil {
		target.Weight = *t.Weight
	}
	switch {
	case t.Method == "" || t.URL == "":
		return fmt.Errorf("method or url is missing; %s", form)
	case !isToken(t.Method):
		return fmt.Errorf("method %s is not a word; write GET", quoteShort(t.Method))
	case target.Weight < 1 || target.Weight > WeightMax:
		return fmt.Errorf("weight %d: must be 1–%d; the default is 1", target.Weight, WeightMax)
	}
	if err := p.countBody(len(t.Body)); err != nil {
		return err
	}
	return p.add(target)
}

// orderedHead is a JSON object of header fields in textual order, which a map would lose.
type orderedHead []Field

// UnmarshalJSON parses {"Name": ["value", …], …}, or null.
func (h *orderedHead) UnmarshalJSON(data []byte) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	start, err := dec.Token()
	if err != nil || start == nil {
		return err
	}
	if start != json.Delim('{') {
		return errors.New("header is not an object")
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return err
		}
		name, _ := key.(string) // the decoder guarantees that an object's keys are strings
		var values []string
		if err := dec.Decode(&values); err != nil {
			return fmt.Errorf("header %s is not a list of texts", quoteShort(name))
		}
		for _, value := range values {
			f := Field{Name: name, Value: value}
			if err := f.check(); err != nil {
				return err
			}
			*h = append(*h, f)
		}
	}
	return nil
}
