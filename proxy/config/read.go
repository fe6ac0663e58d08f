package config

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// Read reads a file, or a directory of region files, and what it includes. It returns Errors
// unless reading itself fails.
func Read(path string) (*Config, error) { return read(path, false) }

func read(path string, outside bool) (*Config, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		c := new(Config)
		c.Include = []string{filepath.Join(path, "*.toml")}
		return complete(c, ".", nil, outside)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return whole(path, text, outside)
}

// Parse parses a file's text; name is its path, to which others are relative.
func Parse(name string, text []byte) (*Config, error) { return whole(name, text, false) }

func whole(name string, text []byte, outside bool) (*Config, error) {
	c := new(Config)
	places, wrong := decode(name, text, c)
	if len(wrong) > 0 {
		return nil, wrong
	}
	return complete(c, filepath.Dir(name), places, outside)
}

// decode reads text strictly into to, with the environment's variables filled in.
func decode(name string, text []byte, to any) (*places, Errors) {
	text, wrong := fillIn(name, bytes.TrimPrefix(text, byteOrderMark))
	if len(wrong) > 0 {
		return nil, wrong
	}
	d := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return nil, decodeErrors(name, err)
	}
	at := findPlaces(name, text)
	unitless(reflect.ValueOf(to), "", func(key string, d Duration) {
		wrong = append(wrong, &Error{name, at.line(key),
			fmt.Sprintf("%s: a time has a unit, and is 1ms at least: \"%ds\" is %[2]d seconds", key, int64(d))})
	})
	if len(wrong) > 0 {
		return nil, wrong
	}
	return at, nil
}

func decodeErrors(name string, err error) Errors {
	var strict *toml.StrictMissingError
	if errors.As(err, &strict) {
		var list Errors
		for i := range strict.Errors {
			row, _ := strict.Errors[i].Position()
			list = append(list, &Error{name, row, "unknown key " + strings.Join(strict.Errors[i].Key(), ".")})
		}
		return list
	}
	var one *toml.DecodeError
	if errors.As(err, &one) {
		row, _ := one.Position()
		return Errors{{name, row, said(one)}}
	}
	return Errors{{name, 1, strings.TrimPrefix(err.Error(), "toml: ")}}
}

// complete reads included files, translates older names, fills in defaults and checks.
func complete(c *Config, dir string, at *places, outside bool) (*Config, error) {
	check := &checker{outside: outside, workers: c.loops()}
	if at == nil {
		at = &places{file: dir, lines: map[string]int{}}
	}
	check.translate(c, at)
	if c.Publish.Regions != "" {
		c.Publish.Regions = relativeTo(at.file, c.Publish.Regions) // as include
	}
	if c.ID != "" || c.Paths.Configs != "" {
		c.ofRoadSign(c.Logging.WardenApps)
	}
	if len(c.Locations) > 0 || len(c.Applications) > 0 {
		check.region(&c.Region, at, "")
		if !c.Disabled {
			c.Regions = append(c.Regions, c.Region)
		}
	} else {
		check.errorPages(c.ErrorPages, at, "")
	}
	for i := range c.Regions[:len(c.Regions)-len0(c)] {
		check.region(&c.Regions[i], at, fmt.Sprintf("regions.%d.", i))
	}
	check.include(c, dir, at)
	c.Regions = slices.DeleteFunc(c.Regions, func(r Region) bool { return r.Disabled })
	c.Region = Region{ErrorPages: c.ErrorPages}
	check.whole(c, at)
	check.beside(c, at)
	c.Notes.Warnings = check.warnings
	if len(check.wrong) > 0 {
		return &Config{Notes: c.Notes}, check.wrong
	}
	return c, nil
}

// len0 is 1 if the file's own region is the last in the list.
func len0(c *Config) int {
	if (len(c.Locations) > 0 || len(c.Applications) > 0) && !c.Disabled {
		return 1
	}
	return 0
}

// include reads the region files.
func (k *checker) include(c *Config, dir string, at *places) {
	for i, pattern := range c.Include {
		theirs := c.Paths.Configs != "" && i == len(c.Include)-1 || at.lines["include"] == 0 && at.file == "."
		whole, key := pattern, fmt.Sprintf("include.%d", i)
		if !filepath.IsAbs(pattern) {
			whole = filepath.Join(dir, pattern)
		}
		files, err := filepath.Glob(whole)
		switch {
		case err != nil:
			k.add(at, key, "include: %v", err)
		case len(files) == 0 && !strings.ContainsAny(pattern, `*?[\`):
			k.add(at, key, "include: no file %s", pattern)
		case len(files) == 0 && !theirs && filepath.Dir(whole) != c.Publish.Regions: // uploads fill that one
			k.warn(at, key, "include: no file matches %s; correct the pattern, or remove it", pattern)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				k.add(at, "include", "include: %v", err)
				continue
			}
			var r Region
			in, wrong := decode(file, text, &r)
			k.wrong = append(k.wrong, wrong...)
			if len(wrong) == 0 {
				if theirs {
					r.ofRoadSign(c.Logging.WardenApps)
				}
				k.region(&r, in, "")
				c.Regions = append(c.Regions, r)
			}
		}
	}
}

// variable is ${NAME} or ${NAME:-default}, as in a shell.
var variable = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)(:-[^}\n]*)?\}`) // read-only

// fillIn replaces the environment variables in a file's text, outside of comments that have a line of
// their own. A value takes its place inside of quotes and outside: \, " and line ends of a value would
// change what the file says, and are refused. Messages show no values, which may be secrets.
func fillIn(name string, text []byte) ([]byte, Errors) {
	if !bytes.Contains(text, []byte("${")) {
		return text, nil
	}
	var wrong Errors
	lines := bytes.Split(text, []byte{'\n'})
	for i, line := range lines {
		if bytes.HasPrefix(bytes.TrimSpace(line), []byte{'#'}) {
			continue
		}
		lines[i] = variable.ReplaceAllFunc(line, func(found []byte) []byte {
			parts := variable.FindSubmatch(found)
			value, set := os.LookupEnv(string(parts[1]))
			if (!set || value == "") && len(parts[2]) > 0 {
				return parts[2][len(":-"):]
			}
			switch {
			case !set:
				wrong = append(wrong, &Error{name, i + 1, fmt.Sprintf("the environment has no variable %s; set it, or write ${%[1]s:-default}", parts[1])})
			case strings.ContainsAny(value, "\\\"\n\r"):
				wrong = append(wrong, &Error{name, i + 1, fmt.Sprintf("the variable %s has a quote, a backslash or a line end, which would change this file", parts[1])})
			}
			return []byte(value)
		})
	}
	return bytes.Join(lines, []byte{'\n'}), wrong
}
