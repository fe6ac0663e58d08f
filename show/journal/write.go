package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"ceiling/internal/lazy"
)

// markFile marks a folder written by Write, which may be replaced.
const markFile = ".ceiling-journal"

// Write writes a site to a folder, atomically. It replaces an existing folder only if that is
// empty or a previously written site.
func Write(s *Site, dir string) error {
	if err := replaceable(dir); err != nil {
		return err
	}
	parent := filepath.Dir(filepath.Clean(dir))
	part, err := os.MkdirTemp(parent, ".journal-")
	if err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	defer os.RemoveAll(part) // no-op after the rename
	if err := s.into(part); err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	old := part + "-old"
	if err := os.Rename(dir, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("write journal: %w", err)
	}
	defer os.RemoveAll(old) // the previous site
	if err := os.Rename(part, dir); err != nil {
		return errors.Join(fmt.Errorf("write journal: %w", err), os.Rename(old, dir))
	}
	return nil
}

// replaceable rejects a folder with other content.
func replaceable(dir string) error {
	list, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("write journal: %w", err)
	case len(list) == 0 || slices.ContainsFunc(list, func(d fs.DirEntry) bool { return d.Name() == markFile }):
		return nil
	}
	return fmt.Errorf("write journal: %s holds other files; give a new folder", dir)
}

func (s *Site) into(dir string) error {
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	for _, path := range slices.Sorted(maps.Keys(s.Files)) {
		if !filepath.IsLocal(filepath.FromSlash(path)) {
			return fmt.Errorf("%s leads out of the folder", path)
		}
		to := filepath.Join(dir, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, s.Files[path], 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, markFile), []byte("Written by ceiling journal build, which replaces this folder.\n"), 0o644)
}

// beginning is the template of a new entry.
const beginning = `---
title: %s
date: %s
status: planned
question: %s
hypothesis:
finding:
regime:
tags: []
runs:
  main:
next:
---

## Results

{{table "main"}}

## Conclusion
`

// Create creates an entry: a folder with the next number and a text to fill in. It returns the
// folder. today is in the form 2026-11-21.
func Create(dir, title, today string) (string, error) {
	title = strings.Join(strings.Fields(title), " ")
	slug := slugOf(title)
	if slug == "" {
		return "", fmt.Errorf("begin entry: the title %q has no letters to name a folder by", title)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("begin entry: %w", err)
	}
	names, err := folders(dir)
	if err != nil {
		return "", fmt.Errorf("begin entry: %w", err)
	}
	number := 1
	for _, name := range names {
		e := entryIn(dir, name)
		if e == nil {
			continue // no entry: the build says so
		}
		if e.Slug == slug {
			return "", fmt.Errorf("begin entry: there is %s already; give it another title", name)
		}
		taken, err := strconv.Atoi(e.Number)
		if err != nil {
			return "", fmt.Errorf("begin entry: %s: %w", name, err)
		}
		number = max(number, taken+1)
	}
	if number >= entriesMost {
		return "", errors.New("begin entry: the numbers of this journal are used up")
	}
	folder := filepath.Join(dir, fmt.Sprintf("%04d-%s", number, slug))
	if err := os.Mkdir(folder, 0o755); err != nil {
		return "", fmt.Errorf("begin entry: %w", err)
	}
	text := fmt.Sprintf(beginning, quoted(title), today, quoted(title))
	if err := os.WriteFile(filepath.Join(folder, entryFile), []byte(text), 0o644); err != nil {
		return "", fmt.Errorf("begin entry: %w", err)
	}
	return folder, nil
}

// quoted returns a single-quoted YAML string, in which only the quote is special.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// slugMost limits the length of a folder's name.
const slugMost = 50

// otherLetters are what a folder's name has dashes for.
var otherLetters = lazy.Regexp(`[^a-z0-9]+`)

// slugOf converts a title to small letters, digits and dashes.
func slugOf(title string) string {
	slug := strings.Trim(otherLetters().ReplaceAllString(strings.ToLower(title), "-"), "-")
	if len(slug) > slugMost {
		slug = slug[:slugMost]
		if i := strings.LastIndexByte(slug, '-'); i > 0 {
			slug = slug[:i]
		}
	}
	return slug
}

// typedNumber matches a number with a unit, as in a measurement.
var typedNumber = lazy.Regexp(`(?i)(?:^|[^\w.])(\d[\d,. ]*\d|\d)\s?[kMG]?\s?(requests?/s|requests? (?:per|a) second|req/s|rps|/s\b|per second|ns\b|µs|us\b|ms\b|s\b|seconds?\b|%|per ?cent\b|[kMGT]i?B(?:/s)?\b|[kMGT]bit/s|×|times\b)`)

// lint warns about numbers typed by hand in a done entry.
func (w *written) lint(line int, text string) {
	if w.Status != Done {
		return
	}
	for _, at := range typedNumber().FindAllStringSubmatchIndex(text, -1) {
		w.warnings.add(w.File, line, "%q looks like a measured number; take it from a record, or say {{typed %q}}",
			text[at[2]:at[1]], text[at[2]:at[1]])
	}
}
