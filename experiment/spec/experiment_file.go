package spec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

const (
	// experimentMax limits the file, in bytes; the repository's own have 1 KB.
	experimentMax = 1 << 20
	// experimentDepth limits its nesting: the YAML parser recurses.
	experimentDepth = 200
)

// IsExperimentFile distinguishes a file argument from a URL.
func IsExperimentFile(text string) bool {
	if ext := filepath.Ext(text); ext != ".yaml" && ext != ".yml" {
		return false
	}
	info, err := os.Stat(text)
	return !strings.Contains(text, "://") || err == nil && info.Mode().IsRegular()
}

// ReadExperiment reads a file of docs/experiments/ (docs/experiments.md). Errors for unknown keys
// and wrong types are one line that begins with FILE:LINE. It reads body files relative to the
// file's directory. The experiment is as written: the caller must call Complete and Check.
func ReadExperiment(path string) (Experiment, error) {
	data, err := readFile(path, experimentMax, "experiment")
	if err != nil {
		return Experiment{}, err
	}
	e, err := parseExperiment(data, path)
	if err != nil {
		return e, err
	}
	if err := e.Load.TLS.Read(filepath.Dir(path)); err != nil {
		return e, fmt.Errorf("%s: %w", path, err)
	}
	for i := range e.Requests {
		if err := e.Requests[i].read(filepath.Dir(path)); err != nil {
			return e, fmt.Errorf("%s: %w", path, err)
		}
	}
	for i := range e.Servers {
		if d := &e.Servers[i].Dir; *d != "" && !filepath.IsAbs(*d) {
			*d = filepath.Join(filepath.Dir(path), *d)
		}
	}
	e.Factorial.relativeTo(filepath.Dir(path))
	return e, nil
}

// relativeTo resolves the profiles that are files in a directory.
func (f *Factorial) relativeTo(dir string) {
	for i := range f.Factors {
		for n := range f.Factors[i].Levels {
			list := f.Factors[i].Levels[n].Tune
			for at, name := range list {
				if strings.Contains(name, "/") && !strings.Contains(name, "=") && !filepath.IsAbs(name) {
					list[at] = filepath.Join(dir, name)
				}
			}
		}
	}
}

// read loads the body files.
func (m *Mix) read(dir string) error {
	for j := range m.Mix {
		if err := m.Mix[j].read(dir); err != nil {
			return err
		}
	}
	return m.MixRequest.read(dir)
}

// read loads a body file.
func (r *MixRequest) read(dir string) error {
	name, isFile := strings.CutPrefix(r.Body, "@")
	if !isFile {
		return nil
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	content, err := readFile(name, BodyMax, "body")
	r.Content = content
	return err
}

func parseExperiment(data []byte, name string) (Experiment, error) {
	var e Experiment
	err := ParseYAML(data, name, "docs/experiments.md", &e)
	return e, err
}

// ParseYAML reads a file's keys, all of which must be known; manual has an example of such a file.
func ParseYAML(data []byte, name, manual string, into any) error {
	if line := tooDeep(data); line > 0 {
		return fmt.Errorf("%s:%d: nested more than %d deep", name, line, experimentDepth)
	}
	err := yaml.NewDecoder(bytes.NewReader(data), yaml.Strict()).Decode(into)
	if err == nil {
		return nil
	}
	var at yaml.Error
	if errors.As(err, &at) {
		return fmt.Errorf("%s:%d: %s", name, lineOf(at.GetToken()), strings.ReplaceAll(at.GetMessage(), "\n", " "))
	}
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: it is empty; %s has an example", name, manual)
	}
	return fmt.Errorf("%s:%d: %s", name, lineOfValue(data, err), strings.ReplaceAll(err.Error(), "\n", " "))
}

// lineOfValue finds the value that an error of UnmarshalText quotes: the decoder does not report
// its position.
func lineOfValue(data []byte, err error) int {
	file, failed := parser.ParseBytes(data, 0)
	if failed != nil {
		return 1
	}
	f := valueFinder{text: err.Error()}
	for _, doc := range file.Docs {
		if doc.Body != nil {
			ast.Walk(&f, doc.Body)
		}
	}
	return max(f.line, 1)
}

// valueFinder searches for the first scalar that a text quotes.
type valueFinder struct {
	text string
	line int
}

// Visit implements ast.Visitor.
func (f *valueFinder) Visit(n ast.Node) ast.Visitor {
	t := n.GetToken()
	if _, scalar := n.(ast.ScalarNode); scalar && f.line == 0 && t != nil && t.Value != "" &&
		strings.Contains(f.text, strconv.Quote(t.Value)) {
		f.line = lineOf(t)
	}
	return f
}

func lineOf(t *token.Token) int {
	if t == nil || t.Position == nil {
		return 1
	}
	return t.Position.Line
}

// tooDeep returns the line where brackets or indentation exceed experimentDepth, or 0.
func tooDeep(data []byte) int {
	n := 0
	for line := range bytes.SplitSeq(data, []byte("\n")) {
		n++
		depth := bytes.Count(line, []byte("[")) + bytes.Count(line, []byte("{")) + bytes.Count(line, []byte("- "))
		if depth+len(line)-len(bytes.TrimLeft(line, " \t")) > experimentDepth {
			return n
		}
	}
	return 0
}
