package pipeline

import (
	"fmt"
	"io"
	"strings"

	"ceiling/experiment/plan"
	"ceiling/internal/unit"
)

// Markdown writes the outcome for the summary of a pipeline or a comment on a change.
func Markdown(w io.Writer, o *Outcome) error {
	var b strings.Builder
	fmt.Fprintf(&b, "### ceiling: %s\n\nbase %s · change %s · %s\n\n", plain(o.summary()), plain(o.Base), plain(o.Change), plain(o.Machine))
	for i := range o.Loads {
		c := &o.Loads[i]
		fmt.Fprintf(&b, "#### %s: %s\n\n", plain(c.Name), c.Result)
		markdownTable(&b, c)
		for k := range c.Checks {
			fmt.Fprintf(&b, "- %s\n", plain(says(&c.Checks[k])))
		}
		if text := limits(c); text != "" {
			fmt.Fprintf(&b, "- %s\n", plain(text))
		}
		if list := caveats(c); len(list) > 0 {
			fmt.Fprintf(&b, "\n<details><summary>%s</summary>\n\n", unit.Plural(len(list), "caveat", "caveats"))
			for _, text := range list {
				fmt.Fprintf(&b, "- %s\n", plain(text))
			}
			b.WriteString("\n</details>\n")
		}
		b.WriteString("\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func markdownTable(b *strings.Builder, c *plan.Checked) {
	list := metrics(c)
	if len(list) == 0 {
		return
	}
	b.WriteString("| | base | change | difference | interval | noise A/A | |\n|---|--:|--:|--:|--:|--:|---|\n")
	for _, m := range list {
		fmt.Fprintf(b, "| %s | %s | %s | **%s** | %s | %s | %s |\n", m.name, m.a, m.b, m.change, m.interval, m.noise, m.decision)
	}
	b.WriteString("\n")
}

// plain escapes what Markdown or HTML would take as markup, or GitHub as a mention: names and paths are
// those of a change.
func plain(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	return strings.NewReplacer("|", `\|`, "*", `\*`, "_", `\_`, "`", "\\`", "[", `\[`, "&", "&amp;", "<", "&lt;", ">", "&gt;", "@", "&#64;").
		Replace(text)
}
