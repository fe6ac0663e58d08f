package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
)

// Sibling returns the path of another program of this repository: beside this one, else in PATH.
func Sibling(name string) (string, error) {
	exe, err := os.Executable()
	if err != nil {
		return "", err
	}
	for _, dir := range []string{filepath.Dir(os.Args[0]), filepath.Dir(exe)} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil && filepath.IsAbs(path) {
			return path, nil
		}
	}
	path, err := exec.LookPath(name)
	if errors.Is(err, exec.ErrNotFound) {
		return "", Usage(fmt.Errorf("%s is needed, and is neither in this program's directory nor in PATH; build both into one directory: "+
			"go build -o bin/ ./cmd/ceiling ./cmd/%[1]s", name))
	}
	return path, err
}

// Hand is a verb of another program, which takes over this process with the same arguments.
func (sh *Shell) Hand(program, use, short string) *cobra.Command {
	return sh.handed(program, use, short, func([]string) []string { return sh.Args[1:] })
}

// HandAll is a verb that is another program: it gets the arguments after the verb.
func (sh *Shell) HandAll(program, use, short string) *cobra.Command {
	return sh.handed(program, use, short, func(args []string) []string { return args })
}

func (sh *Shell) handed(program, use, short string, of func(args []string) []string) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, DisableFlagParsing: true, Annotations: map[string]string{"program": program},
		RunE: func(c *cobra.Command, args []string) error {
			return sh.Perform(c.Context(), handOver{program, of(args)}, nil)
		}}
}

// handOver is the job of having another program take over this process.
type handOver struct {
	program string
	args    []string
}

func (o handOver) Do(context.Context, *Shell) error {
	path, err := Sibling(o.program)
	if err != nil {
		return err
	}
	return fmt.Errorf("start %s: %w", path, syscall.Exec(path, append([]string{path}, o.args...), os.Environ()))
}
