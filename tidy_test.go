// Package ceiling holds the rules of the house that a machine can hold.
package ceiling

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

// mayImport says which packages of this module each package may import; one that is
// missing here fails the test, so that every new package is placed. So does a
// permission that is not used: what is written here is what is so.
func mayImport() map[string][]string {
	return map[string][]string{
		"internal/archive":     {},
		"internal/authority":   {},
		"internal/browser":     {},
		"internal/condition":   {},
		"internal/distance":    {"internal/sys"},
		"internal/eventstream": {},
		"internal/faultserver": {},
		"internal/hist":        {},
		"internal/hpack":       {},
		"internal/http1":       {},
		"internal/http2":       {},
		"internal/durable":     {},
		"internal/pause":       {},
		"internal/process":     {"internal/sys"},
		"internal/lazy":        {},
		"internal/leak":        {},
		"internal/natstest":    {"internal/porttest", "measure/fleet/bus", "measure/fleet/controller"},
		"internal/needs":       {},
		"internal/porttest":    {"internal/sys"},
		"internal/option":      {},
		"internal/nic":         {"internal/sys"},
		"internal/profiles":    {"internal/text"},
		"internal/rebind":      {},
		"internal/ring":        {},
		"internal/scratch":     {"internal/sys"},
		"internal/screen":      {},
		"internal/secret":      {"internal/lazy"},
		"internal/text":        {},
		"internal/stat":        {"internal/unit"},
		"internal/sys":         {},
		"internal/suite":       {"internal/needs"},
		"internal/tlsconn":     {},
		"internal/unit":        {"internal/text"},
		"internal/websocket":   {"internal/http1"},
		"server": {"internal/hpack", "internal/http1", "internal/http2", "internal/profiles", "internal/ring",
			"server/backend", "server/prefork"},
		"server/prefork":    {},
		"server/backend":    {},
		"server/downstream": {"internal/option", "server/backend"},
		"server/quorum": {"internal/distance", "internal/process", "internal/option", "internal/scratch", "internal/sys", "measure/netns",
			"server/backend"},
		"server/store":   {"internal/text", "internal/process", "internal/scratch", "server/backend"},
		"server/planted": {"internal/distance", "internal/sys", "server/prefork", "server/store"},
		"proxy": {"internal/hist", "internal/hpack", "internal/http1", "internal/http2", "internal/rebind", "internal/ring", "internal/secret", "internal/sys",
			"internal/tlsconn", "internal/unit", "internal/websocket", "proxy/access", "proxy/compress", "proxy/config", "proxy/files", "proxy/listen",
			"proxy/route", "proxy/secure"},
		"proxy/access":        {},
		"proxy/apps":          {"proxy/config"},
		"proxy/compress":      {"proxy/config"},
		"proxy/config":        {},
		"proxy/listen":        {"internal/ring", "proxy/config"},
		"proxy/prefork":       {"proxy", "proxy/config", "proxy/listen"},
		"proxy/files":         {"internal/http1", "proxy/compress", "proxy/config"},
		"proxy/publish":       {"proxy/config"},
		"proxy/roadsign":      {"internal/secret", "proxy", "proxy/apps", "proxy/config", "proxy/publish"},
		"proxy/service":       {"proxy", "proxy/apps", "proxy/config", "proxy/prefork", "proxy/publish", "proxy/roadsign", "proxy/secure"},
		"proxy/route":         {},
		"proxy/secure":        {"internal/tlsconn", "proxy/config"},
		"measure/cores":       {"experiment/spec"},
		"experiment/borrowed": {"experiment/spec", "internal/lazy", "internal/unit"},
		"experiment/plan":     {"experiment/spec", "internal/hist", "internal/stat", "internal/unit", "record"},
		"experiment/spec":     {"internal/condition", "internal/lazy", "internal/secret", "internal/unit"},
		"record":              {"experiment/spec", "internal/hist", "internal/nic", "internal/secret", "internal/sys", "internal/unit", "internal/durable"},
		"measure/fleet": {"experiment/spec", "internal/exit", "internal/nic", "internal/pause", "internal/sys", "internal/unit", "measure/fleet/bus", "measure/fleet/clock", "measure/load", "measure/run",
			"record"},
		"measure/fleet/bus":        {"internal/text", "internal/durable", "internal/pause", "internal/sys"},
		"measure/fleet/controller": {"internal/pause", "internal/sys", "measure/fleet/bus"},
		"measure/fleet/clock":      {},
		"measure/load": {"internal/condition", "internal/eventstream", "internal/hist", "internal/hpack", "internal/http1", "internal/http2", "internal/lazy", "internal/ring",
			"internal/sys", "internal/tlsconn", "internal/unit", "internal/websocket"},
		"measure/observe":        {"internal/nic", "internal/sys", "measure/observe/events", "record"},
		"measure/observe/events": {"internal/btf", "internal/hist", "internal/sys"},
		"measure/perturb":        {"experiment/spec", "internal/nic", "internal/process", "internal/sys", "internal/unit", "measure/cores", "record"},
		"measure/netns":          {"internal/sys"},
		"measure/data":           {"experiment/spec", "internal/condition", "internal/lazy", "measure/load"},
		"measure/lua":            {"measure/load"},
		"measure/checkout":       {"internal/process", "internal/scratch"},
		"measure/profile":        {"internal/profiles", "record"},
		"measure/profile/stacks": {"internal/btf", "internal/profiles", "internal/sys", "measure/profile/symbol", "record"},
		"measure/profile/symbol": {"internal/sys"},
		"measure/run": {"experiment/plan", "experiment/spec", "internal/hist", "internal/http1", "internal/http2", "internal/process", "internal/profiles", "internal/ring",
			"internal/secret", "internal/stat", "internal/sys", "internal/tlsconn", "internal/unit", "internal/websocket", "internal/exit", "measure/cores", "measure/load", "measure/observe", "measure/perturb", "measure/profile",
			"measure/behind", "measure/netns", "measure/tune",
			"measure/profile/stacks", "record", "verdict", "verdict/prose", "internal/pause"},
		"measure/tune": {"internal/text", "experiment/spec", "internal/nic", "internal/sys", "internal/unit", "measure/cores", "measure/observe",
			"internal/durable"},
		"verdict/prose":     {"internal/lazy", "internal/unit", "record"},
		"measure/behind":    {"internal/lazy", "internal/text", "record", "internal/pause"},
		"record/recordtest": {"record"},
		"verdict/forecast":  {"internal/unit", "record"},
		"verdict":           {"experiment/spec", "internal/exit", "internal/hist", "internal/secret", "internal/stat", "internal/text", "record"},
		"show/chart":        {"internal/hist", "internal/unit", "record"},
		"show/export":       {"internal/hist", "internal/profiles", "internal/secret", "record", "verdict/prose"},
		"show/face":         {"internal/hist", "record"},
		"show/importer":     {"experiment/spec", "internal/lazy", "internal/unit", "show/face"},
		"show/journal": {"internal/text", "experiment/plan", "internal/durable", "internal/lazy", "internal/rebind", "internal/unit", "record", "show/chart",
			"show/importer", "show/page", "verdict/prose"},
		"show/path": {"internal/unit", "record", "show/layout"},
		"show/live": {"experiment/spec", "internal/hist", "internal/secret", "internal/sys", "internal/unit", "record", "verdict",
			"verdict/prose"},
		"show/live/follow": {"experiment/plan", "experiment/spec", "record", "show/live", "internal/pause"},
		"show/live/page": {"experiment/spec", "internal/hist", "internal/pause", "internal/rebind", "internal/sys", "internal/unit", "record", "show/chart",
			"show/live", "show/page", "show/path"},
		"show/live/terminal": {"internal/unit", "record", "show/layout", "show/live", "show/path"},
		"show/layout":        {},
		"internal/exit":      {},
		"internal/btf":       {"internal/sys"},
		"internal/reference": {},
		"internal/golden":    {},
		"show/page": {"internal/text", "experiment/plan", "experiment/spec", "internal/hist", "internal/profiles", "internal/secret",
			"internal/stat", "internal/unit", "record", "show/chart", "show/importer", "show/live", "show/layout", "show/path", "show/report", "verdict/prose"},
		"show/report": {"experiment/spec", "internal/secret", "internal/stat", "internal/text", "internal/unit", "measure/cores", "record",
			"show/importer", "show/layout", "show/path", "verdict", "verdict/forecast", "verdict/prose"},
		"check/calibrate": {"experiment/spec", "internal/hist", "internal/http1", "internal/ring", "internal/stat", "internal/sys",
			"internal/unit", "measure/load", "measure/run", "record"},
		"check/interop": {},
		"check/doctor":  {"experiment/spec", "internal/ring", "internal/sys", "internal/unit", "measure/observe", "record"},
		"check/race": {"experiment/spec", "internal/authority", "internal/ring", "internal/stat", "internal/sys",
			"internal/text", "internal/tlsconn", "internal/unit", "measure/load", "measure/run", "record", "show/chart", "show/page", "verdict/prose", "internal/pause"},
		"check/race/baseline": {},
		"check/selftest": {"experiment/spec", "internal/sys", "internal/unit", "measure/netns", "measure/run", "record", "server/planted",
			"verdict", "verdict/prose"},
	}
}

// longFunctions may have more than 70 lines. The list only gets shorter.
func longFunctions() []string { return nil }

const maxLines = 70

// source is one parsed file of the module.
type source struct {
	name string // slash-separated, relative to the root
	dir  string
	test bool
	file *ast.File
	set  *token.FileSet
}

// parsed is sources' result: ten tests read the same files.
var parsed = sync.OnceValues(parse) // read-only

func sources(t *testing.T) []source {
	t.Helper()
	list, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	if len(list) < 20 {
		t.Fatalf("found %d files: the walk is broken", len(list))
	}
	return list
}

func parse() (list []source, err error) {
	err = filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || strings.HasPrefix(d.Name(), "_") || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if d.IsDir() && name != "." {
			// A module within this one keeps its own rules.
			if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil {
				return filepath.SkipDir
			}
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") {
			return nil
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, name, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		list = append(list, source{filepath.ToSlash(name), path.Dir(filepath.ToSlash(name)), strings.HasSuffix(name, "_test.go"), f, set})
		return nil
	})
	return list, err
}

func TestImportsPointOneWay(t *testing.T) {
	allowed, used := mayImport(), map[string][]string{}
	for _, s := range sources(t) {
		if s.test || s.dir == "." || strings.HasPrefix(s.dir, "cmd/") {
			continue
		}
		may, known := allowed[s.dir]
		if !known {
			t.Errorf("%s: package %s has no place in mayImport", s.name, s.dir)
			continue
		}
		used[s.dir] = append(used[s.dir], "")
		for _, spec := range s.file.Imports {
			name := strings.Trim(spec.Path.Value, `"`)
			if own, ok := strings.CutPrefix(name, "ceiling/"); ok {
				used[s.dir] = append(used[s.dir], own)
				if !slices.Contains(may, own) {
					t.Errorf("%s: %s may not import %s", s.name, s.dir, own)
				}
			}
			if strings.HasPrefix(name, "golang.org/x/sys") && s.dir != "internal/sys" && s.dir != "internal/ring" {
				t.Errorf("%s: only internal/sys and internal/ring import golang.org/x/sys", s.name)
			}
		}
	}
	for dir, may := range allowed {
		if used[dir] == nil {
			t.Errorf("mayImport has %s, which is no package", dir)
		}
		for _, own := range may {
			if used[dir] != nil && !slices.Contains(used[dir], own) {
				t.Errorf("%s may import %s and does not: take the permission away", dir, own)
			}
		}
	}
}

// TestImportsAreGrouped: the module's own packages stand apart from those of others.
func TestImportsAreGrouped(t *testing.T) {
	for _, s := range sources(t) {
		text, err := os.ReadFile(s.name)
		if err != nil {
			t.Fatal(err)
		}
		_, imports, _ := strings.Cut(string(text), "\nimport (\n")
		imports, _, _ = strings.Cut(imports, "\n)\n")
		for group := range strings.SplitSeq(imports, "\n\n") {
			if own := strings.Count(group, "\"ceiling/"); own > 0 && own < strings.Count(group, "\n")+1 {
				t.Errorf("%s: sort its imports: goimports -local ceiling -w %[1]s", s.name)
			}
		}
	}
}

// maxColumns is what two files side by side leave of a screen. A line may be longer by
// its texts: a sentence is not broken.
const maxColumns = 140

func TestLinesAreShort(t *testing.T) {
	literal := regexp.MustCompile("\"(?:[^\"\\\\\n]|\\\\.)*\"|`[^`]*`")
	for _, s := range sources(t) {
		text, err := os.ReadFile(s.name)
		if err != nil {
			t.Fatal(err)
		}
		code := literal.ReplaceAllStringFunc(string(text), func(s string) string { return strings.Repeat("\n", strings.Count(s, "\n")) })
		n := 0
		for line := range strings.Lines(code) {
			n++
			if columns := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); columns > maxColumns {
				t.Errorf("%s:%d has %d columns", s.name, n, columns)
			}
		}
	}
}

// TestRoomsAreFew: what is at the top fits on a screen, and tells the story.
func TestRoomsAreFew(t *testing.T) {
	tracked, err := exec.Command("git", "ls-files").Output()
	if err != nil {
		t.Fatal(err)
	}
	top := map[string]bool{}
	for name := range strings.Lines(string(tracked)) {
		if dir, _, ok := strings.Cut(name, "/"); ok && !strings.HasPrefix(dir, ".") {
			top[dir] = true
		}
	}
	if len(top) > 12 {
		t.Errorf("%d folders at the top: %v; 12 are enough", len(top), slices.Sorted(maps.Keys(top)))
	}
}

func TestNoSharedState(t *testing.T) {
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil && d.Name.Name == "init" {
					t.Errorf("%s: init() is not used here", s.name)
				}
			case *ast.GenDecl:
				if d.Tok != token.VAR {
					continue
				}
				for _, spec := range d.Specs {
					checkVariable(t, s, spec.(*ast.ValueSpec))
				}
			}
		}
	}
}

// checkVariable lets through what cannot change or does not matter: errors,
// embedded files, interface assertions (var _ T = …) and read-only tables that
// a line comment marks as such.
func checkVariable(t *testing.T, s source, v *ast.ValueSpec) {
	for i, name := range v.Names {
		if name.Name == "_" || strings.HasPrefix(strings.ToLower(name.Name), "err") {
			continue
		}
		if i < len(v.Values) {
			if call, ok := v.Values[i].(*ast.CallExpr); ok {
				text := callName(call)
				if text == "regexp.MustCompile" || text == "lazy.Regexp" || text == "errors.New" || text == "template.Must" {
					continue
				}
			}
		}
		if v.Comment != nil && strings.Contains(v.Comment.Text(), "read-only") || embedded(s, v) {
			continue
		}
		t.Errorf("%s: package variable %s; pass it, or mark a table that nothing writes with a comment \"read-only\"", s.name, name.Name)
	}
}

func embedded(s source, v *ast.ValueSpec) bool {
	for _, group := range s.file.Comments {
		if bytes.HasPrefix([]byte(group.List[len(group.List)-1].Text), []byte("//go:embed")) && group.End() < v.Pos() && v.Pos()-group.End() < 8 {
			return true
		}
	}
	return false
}

func callName(c *ast.CallExpr) string {
	if sel, ok := c.Fun.(*ast.SelectorExpr); ok {
		if pkg, ok := sel.X.(*ast.Ident); ok {
			return pkg.Name + "." + sel.Sel.Name
		}
	}
	return ""
}

func TestOnlyCommandsPrintAndExit(t *testing.T) {
	banned := []string{"fmt.Print", "fmt.Printf", "fmt.Println", "log.Fatal", "log.Fatalf", "log.Print", "log.Printf", "os.Exit"}
	for _, s := range sources(t) {
		if s.test || s.file.Name.Name == "main" || s.dir == "internal/leak" { // which ends a package's tests
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && slices.Contains(banned, callName(call)) {
				t.Errorf("%s: %s belongs in cmd", s.set.Position(call.Pos()), callName(call))
			}
			return true
		})
	}
}

func TestFunctionsAreShort(t *testing.T) {
	long := longFunctions()
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			lines := s.set.Position(f.End()).Line - s.set.Position(f.Pos()).Line + 1
			name := s.dir + "." + f.Name.Name
			if lines > maxLines && !slices.Contains(long, name) {
				t.Errorf("%s: %s has %d lines, %d are enough", s.name, name, lines, maxLines)
			}
			if i := slices.Index(long, name); i >= 0 && lines <= maxLines {
				t.Errorf("%s is short again: take it off the list", name)
			}
		}
	}
}

func TestPackagesAreNouns(t *testing.T) {
	documented := map[string]bool{}
	for _, s := range sources(t) {
		for _, bad := range []string{"util", "utils", "common", "helper", "helpers", "misc", "base"} {
			if s.file.Name.Name == bad || path.Base(s.dir) == bad {
				t.Errorf("%s: a package called %s says nothing", s.name, bad)
			}
		}
		if !s.test {
			documented[s.dir] = documented[s.dir] || s.file.Doc != nil
		}
	}
	for dir, ok := range documented {
		if !ok {
			t.Errorf("%s: no package comment", dir)
		}
	}
}

// TestEveryDependencyHasAReason holds docs/decisions/dependencies.md against
// go.mod.
func TestEveryDependencyHasAReason(t *testing.T) {
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	reasons, err := os.ReadFile("docs/decisions/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mod)) {
		fields := strings.Fields(line)
		if len(fields) != 2 || !strings.Contains(fields[0], "/") || !strings.HasPrefix(fields[1], "v") {
			continue // an indirect one has a comment behind it
		}
		if !bytes.Contains(reasons, []byte("`"+fields[0]+"`")) {
			t.Errorf("%s has no reason in docs/decisions/dependencies.md", fields[0])
		}
	}
}
