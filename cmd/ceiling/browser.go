package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// pageFile is the path of the page of some records: the same names give the same path, so that
// pages do not pile up.
func pageFile(names []string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "ceiling", "pages")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	plain := func(r rune) rune {
		if r == '/' || r < ' ' {
			return '_'
		}
		return r
	}
	name := strings.Map(plain, strings.Join(names, "+"))
	return filepath.Join(dir, name[:min(len(name), 100)]+".html"), nil
}

// openInBrowser asks the desktop to show a file. It fails without a desktop.
func openInBrowser(ctx context.Context, file string) error {
	if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
		return fmt.Errorf("no display (DISPLAY and WAYLAND_DISPLAY are not set)")
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return exec.CommandContext(ctx, "xdg-open", file).Run()
}
