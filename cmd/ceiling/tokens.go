package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"ceiling/cmd/internal/command"
	"ceiling/cmd/internal/testbed"
	"ceiling/internal/unit"
	"ceiling/measure/fleet/bus"
)

// tokensSchema is the version of the document of `ceiling fleet tokens`.
const tokensSchema = "ceiling.tokens/1"

func newTokens(sh *shell) *cobra.Command {
	var dir string
	var asJSON bool
	c := &cobra.Command{
		Use:   "tokens",
		Short: "List the tokens that agents join with; create and revoke them",
		Long: `Lists the tokens of the controller on this host, without their secrets: when each
was created and expires. A controller that runs adds when each was last used since its
start, and how many agents use it now.`,
		Example: `  ceiling fleet tokens
  ceiling fleet tokens create --expires 7d -o token
  ceiling fleet tokens revoke UAQ3F2A91B`,
		Args: command.Exactly(0, "no arguments"),
		RunE: func(c *cobra.Command, _ []string) error {
			state, err := tokensDir(dir)
			if err != nil {
				return err
			}
			list, err := bus.ListTokens(c.Context(), state)
			if err != nil {
				return err
			}
			if asJSON {
				return tokensJSON(sh, list)
			}
			return tokensTable(sh, list)
		},
	}
	c.Flags().SortFlags = false
	controllerSetting(&dir).bind(c.PersistentFlags())
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	c.AddCommand(newTokensCreate(sh, &dir), newTokensRevoke(sh, &dir))
	return c
}

// tokensDir returns the directory of a controller that issues its own tokens.
func tokensDir(dir string) (string, error) {
	dir, err := testbed.Dir(dir)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(dir, testbed.ExternalConfig)); err == nil {
		return "", command.Usage(fmt.Errorf("%s is prepared for your own NATS: its credentials let agents in, revoke them there", dir))
	}
	return dir, nil
}

func newTokensCreate(sh *shell, dir *string) *cobra.Command {
	var expires, out string
	c := &cobra.Command{
		Use:   "create",
		Short: "Create a token and print it",
		Long: `Creates a token and prints it, or writes it to a file that only its owner can
read. The secret is not stored: if you lose it, create another token. Several
agents may share one.`,
		Example: `  ceiling fleet tokens create -o token
  ceiling fleet tokens create --expires 2h | ssh load1 'cat > token'`,
		Args: command.Exactly(0, "no arguments"),
		RunE: func(*cobra.Command, []string) error {
			life, err := parseLife(expires)
			if err != nil {
				return command.Usage(fmt.Errorf("--expires: %w", err))
			}
			state, err := tokensDir(*dir)
			if err != nil {
				return err
			}
			return createToken(sh, state, life, out)
		},
	}
	c.Flags().SortFlags = false
	c.Flags().StringVar(&expires, "expires", formatDays(bus.TokenLife), "how long it is valid: 2h, 7d")
	c.Flags().StringVarP(&out, "out", "o", "", "new file for it, mode 0600 (default: standard output)")
	return c
}

func createToken(sh *shell, dir string, life time.Duration, out string) error {
	var file *os.File // created first: otherwise an unusable token could end up on the list
	if out != "" {
		var err error
		file, err = os.OpenFile(out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, os.ErrExist) {
			return command.Usage(fmt.Errorf("--out %s: the file exists; name a new one", out))
		}
		if err != nil {
			return fmt.Errorf("--out: %w", err)
		}
	}
	t, err := bus.CreateToken(dir, life)
	if file == nil && err == nil {
		_, err = fmt.Fprintln(sh.Stdout, t)
	}
	if file != nil {
		if err == nil {
			_, err = fmt.Fprintln(file, t)
		}
		if err = errors.Join(err, file.Close()); err != nil {
			err = errors.Join(err, os.Remove(out))
		}
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(sh.Stderr, "token %s is valid until %s; agents take it from --token-file or %s\n", t.ID(), testbed.LocalTime(t.Expires), testbed.TokenEnv)
	return nil
}

func newTokensRevoke(sh *shell, dir *string) *cobra.Command {
	return &cobra.Command{
		Use:   "revoke ID...",
		Short: "Revoke tokens and disconnect their agents",
		Long: `Revokes tokens permanently. A running controller disconnects their agents within
two seconds; the agents say so and end with exit code 2.`,
		Example: `  ceiling fleet tokens revoke UAQ3F2A91B`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return command.Usage(errors.New("which token? ceiling fleet tokens lists them: ceiling fleet tokens revoke ID"))
			}
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			state, err := tokensDir(*dir)
			if err != nil {
				return nil, cobra.ShellCompDirectiveError
			}
			list, err := bus.ReadPasses(state)
			if err != nil {
				return nil, cobra.ShellCompDirectiveError
			}
			var ids []string
			for _, p := range list {
				if p.State(time.Now()) == bus.TokenValid {
					ids = append(ids, p.ID())
				}
			}
			return ids, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			state, err := tokensDir(*dir)
			if err != nil {
				return err
			}
			for _, id := range args {
				p, err := bus.RevokeToken(state, id)
				if err != nil {
					return err
				}
				fmt.Fprintf(sh.Stderr, "token %s was revoked at %s\n", p.ID(), testbed.LocalTime(p.Revoked))
			}
			return nil
		},
	}
}

// parseLife parses a duration, which may be in days.
func parseLife(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		if err != nil {
			return 0, fmt.Errorf("%q is not a number of days, as in 7d", text)
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
	return unit.ParseDuration(text)
}

func formatDays(d time.Duration) string { return fmt.Sprintf("%dd", d/(24*time.Hour)) }

func tokensTable(sh *shell, list []bus.Listed) error {
	t := tabwriter.NewWriter(sh.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "token\tstate\tmade\texpires\tlast used\tagents now")
	now := time.Now()
	for _, l := range list {
		state := string(l.State(now))
		if !l.Revoked.IsZero() {
			state += " " + testbed.LocalTime(l.Revoked)
		}
		used := "never"
		switch {
		case l.Agents > 0:
			used = "now"
		case !l.Last.IsZero():
			used = testbed.LocalTime(l.Last)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%d\n", l.ID(), state, testbed.LocalTime(l.Made), testbed.LocalTime(l.Expires), used, l.Agents)
	}
	return t.Flush()
}

func tokensJSON(sh *shell, list []bus.Listed) error {
	type token struct {
		ID       string         `json:"id"`
		State    bus.TokenState `json:"state"`
		Made     time.Time      `json:"made"`
		Expires  time.Time      `json:"expires"`
		Revoked  time.Time      `json:"revoked,omitzero"`
		LastUsed time.Time      `json:"last_used,omitzero"`
		Agents   int            `json:"agents"`
	}
	doc := struct {
		Schema string  `json:"schema"`
		Tokens []token `json:"tokens"`
	}{tokensSchema, []token{}}
	now := time.Now()
	for _, l := range list {
		doc.Tokens = append(doc.Tokens, token{l.ID(), l.State(now), l.Made, l.Expires, l.Revoked, l.Last, l.Agents})
	}
	enc := json.NewEncoder(sh.Stdout)
	enc.SetIndent("", "  ")
	return enc.Encode(doc)
}
