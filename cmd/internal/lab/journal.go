package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/net/netutil"

	"ceiling/cmd/internal/command"
	"ceiling/cmd/internal/records"
	"ceiling/internal/unit"
	"ceiling/record"
	"ceiling/show/journal"
)

func newJournal(sh *command.Shell) *cobra.Command {
	c := &cobra.Command{
		Use:   "journal",
		Short: "Keep a journal: entries with figures from records",
		Long: `A journal is a folder of entries, each a Markdown file with a question, a
hypothesis and a status. Tables, figures and numbers come from records by
reference ({{(run "NAME").Rate}}); an unresolved reference fails the build.
docs/journal.md lists what entries can refer to.`,
		Example: `  ceiling journal new "Does gzip pay?" --from x7f2
  ceiling journal add 0001-does-gzip-pay x7f2
  ceiling journal build -o site
  ceiling journal serve`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newJournalNew(sh), newJournalAdd(sh), newJournalBuild(sh), newJournalServe(sh))
	return c
}

// journalDir adds the flag shared by all journal verbs.
func journalDir(c *cobra.Command) *string {
	return c.Flags().String("dir", "journal", "folder of the journal")
}

func newJournalNew(sh *command.Shell) *cobra.Command {
	var from []string
	c := &cobra.Command{
		Use:     "new TITLE",
		Short:   "Start an entry",
		Example: `  ceiling journal new "Does gzip pay?" --from x7f2`,
		Args:    command.Exactly(1, "one title, in quotes"),
	}
	dir := journalDir(c)
	c.Flags().StringArrayVar(&from, "from", nil, "include this run or plan; may be repeated")
	c.RunE = func(_ *cobra.Command, args []string) error {
		sources, err := findAll(sh, from)
		if err != nil {
			return err
		}
		folder, err := journal.Create(*dir, args[0], time.Now().Format(time.DateOnly))
		if err != nil {
			return command.Usage(err)
		}
		fmt.Fprintln(sh.Stdout, filepath.Join(folder, "entry.md"))
		for _, source := range sources {
			if err := addRecord(sh, *dir, folder, source, ""); err != nil {
				return err
			}
		}
		return nil
	}
	return c
}

func newJournalAdd(sh *command.Shell) *cobra.Command {
	var as string
	c := &cobra.Command{
		Use:   "add ENTRY ID…",
		Short: "Copy records into an entry, so that a clone has them",
		Long: `Copies runs or plans into the entry's folder: results and histograms; for a
single run also the series if it is small; for a plan the result of every run.
The output lists what was left out. If exactly one name in the front matter's
runs has no ID, or --as names one, that name gets the ID.`,
		Example: `  ceiling journal add 0001-servers x7f2
  ceiling journal add docs/journal/0001-servers x7f2 --as servers`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) < 2 {
				return command.Usage(fmt.Errorf("add takes an entry and at least one ID or file; see: %s --help", c.CommandPath()))
			}
			return nil
		},
	}
	dir := journalDir(c)
	c.Flags().StringVar(&as, "as", "", "name among the front matter's runs that gets the ID")
	c.RunE = func(c *cobra.Command, args []string) error {
		if as != "" && len(args) > 2 {
			return command.Usage(errors.New("--as names one record; add the others apart"))
		}
		sources, err := findAll(sh, args[1:])
		if err != nil {
			return err
		}
		in := *dir
		if strings.ContainsRune(args[0], filepath.Separator) && !c.Flags().Changed("dir") {
			in = filepath.Dir(filepath.Clean(args[0])) // docs/journal/0001-servers, wherever that is
		}
		for _, source := range sources {
			if err := addRecord(sh, in, args[0], source, as); err != nil {
				return err
			}
		}
		return nil
	}
	return c
}

// findAll finds all records before anything uses the first.
func findAll(sh *command.Shell, names []string) ([]record.File, error) {
	var files []record.File
	for _, name := range names {
		file, err := records.Find(sh, name)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

func addRecord(sh *command.Shell, dir, entry string, source record.File, as string) error {
	e, err := journal.FindEntry(dir, entry)
	if err != nil {
		return command.Usage(err)
	}
	added, err := journal.Add(e, source, as)
	if err != nil {
		return command.Usage(err)
	}
	fmt.Fprintf(sh.Stderr, "%s: %s, in %s\n", added.ID, unit.FormatBytesSI(added.Bytes), added.File)
	for _, l := range added.LeftOut {
		fmt.Fprintf(sh.Stderr, "  left out: %s (%s): %s\n", l.What, unit.FormatBytesSI(l.Bytes), l.Why)
	}
	if added.As != "" {
		fmt.Fprintf(sh.Stderr, "  it is %q in %s now\n", added.As, e.File)
	} else if !added.Named {
		fmt.Fprintf(sh.Stderr, "  name it in %s:\n    runs:\n      a-name: %s\n", e.File, added.ID)
	}
	return nil
}

func newJournalBuild(sh *command.Shell) *cobra.Command {
	var out string
	c := &cobra.Command{
		Use:     "build",
		Short:   "Build the pages of a journal",
		Example: "  ceiling journal build -o site",
		Args:    command.Exactly(0, "no arguments"),
	}
	dir := journalDir(c)
	c.Flags().StringVarP(&out, "out", "o", "site", "folder for the pages; an earlier build is replaced")
	c.RunE = func(*cobra.Command, []string) error {
		store, err := record.DefaultStore(os.Getenv)
		if err != nil {
			return err
		}
		site, err := buildJournal(sh, *dir, store)
		if err != nil {
			return err
		}
		if err := journal.Write(site, out); err != nil {
			return err
		}
		fmt.Fprintf(sh.Stdout, "%s\n", filepath.Join(out, journal.IndexPage))
		return nil
	}
	return c
}

// buildJournal reads the journal and renders its pages; it prints mistakes and warnings, one per
// line.
func buildJournal(sh *command.Shell, dir string, store record.Store) (*journal.Site, error) {
	j, err := journal.Read(dir, store)
	var site *journal.Site
	if err == nil {
		site, err = journal.Build(j)
	}
	var mistakes journal.Mistakes
	if errors.As(err, &mistakes) {
		for _, m := range mistakes {
			fmt.Fprintln(sh.Stderr, m.Error())
		}
		return nil, fmt.Errorf("journal: %s, and nothing was written", unit.Plural(len(mistakes), "mistake", "mistakes"))
	}
	if err != nil {
		return nil, err
	}
	for _, m := range site.Warnings {
		fmt.Fprintf(sh.Stderr, "warning: %s\n", m.Error())
	}
	return site, nil
}

func newJournalServe(sh *command.Shell) *cobra.Command {
	var addr string
	c := &cobra.Command{
		Use:     "serve",
		Short:   "Show a journal in a browser, rebuilt on every change",
		Example: "  ceiling journal serve --addr 127.0.0.1:8090",
		Args:    command.Exactly(0, "no arguments"),
	}
	dir := journalDir(c)
	c.Flags().StringVar(&addr, "addr", "127.0.0.1:0", "loopback address to listen on; port 0 = any")
	c.RunE = func(c *cobra.Command, _ []string) error { return serveJournal(sh, c.Context(), *dir, addr) }
	return c
}

// connectionsOfJournal limits the open sockets of a journal's readers.
const connectionsOfJournal = 64

func serveJournal(sh *command.Shell, ctx context.Context, dir, addr string) error {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return command.Usage(fmt.Errorf("no folder %s; begin a journal with: ceiling journal new \"a title\"", dir))
	}
	store, err := record.DefaultStore(os.Getenv)
	if err != nil {
		return err
	}
	if at, err := net.ResolveTCPAddr("tcp", addr); err != nil {
		return command.Usage(fmt.Errorf("--addr: %w; write it as in 127.0.0.1:8090", err))
	} else if !at.IP.IsLoopback() {
		return command.Usage(fmt.Errorf("--addr: %s is not on this machine's loopback; a journal is served only to its writer, and built to be published", addr))
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return command.Usage(fmt.Errorf("%w; give another address with --addr, or port 0 to have one chosen", err))
	}
	fmt.Fprintf(sh.Stdout, "http://%s/\n", ln.Addr())
	// The timeouts disconnect a reader that does not read.
	server := &http.Server{Handler: journal.NewHandler(dir, store), ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second,
		IdleTimeout:    time.Minute,
		MaxHeaderBytes: 16 << 10}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() }) // Serve answers ErrServerClosed then
	defer stop()
	if err := server.Serve(netutil.LimitListener(ln, connectionsOfJournal)); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
