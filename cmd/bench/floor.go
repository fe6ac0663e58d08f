package main

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"ceiling/internal/process"
)

// floorSource is a generator that moves the bytes and measures nothing.
//
//go:embed floor/floor.c
var floorSource []byte

// compileFloor makes the program in dir, which needs a C compiler and liburing 2.2 (Debian: gcc
// liburing-dev). The error says what is missing.
func compileFloor(ctx context.Context, dir string) (path string, err error) {
	compiler, err := exec.LookPath("cc")
	if err != nil {
		return "", err
	}
	source := filepath.Join(dir, "floor.c")
	if err := os.WriteFile(source, floorSource, 0o600); err != nil {
		return "", err
	}
	path = filepath.Join(dir, "floor")
	limited, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	said, err := exec.CommandContext(limited, compiler, "-O2", "-o", path, source, "-luring").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", compiler, err, process.LastLine(said))
	}
	return path, nil
}
