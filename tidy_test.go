// Package ceiling holds the rules of the house that a machine can hold.
package ceiling

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mayImport says which packages of this module each package may import; one
// that is missing here fails the test, so that every new package is placed.
func mayImport() map[string][]string {
	low := []string{"internal/unit", "internal/stat", "internal/hist", "internal/sys"}
	return map[string][]string{
		"internal/unit":     {},
		"internal/stat":     {},
		"internal/hist":     {},
		"internal/sys":      {},
		"internal/http1":    low,
		"internal/ring":     low,
		"internal/faulty":   {},
		"internal/browser":  {},
		"internal/screen":   {},
		"internal/lazy":     {},
		"internal/rebind":   {},
		"internal/secret":   {"internal/lazy"},
		"internal/ownnats":  {},
		"load":              append([]string{"internal/http1", "internal/ring"}, low...),
		"server":            append([]string{"internal/http1", "internal/ring"}, low...),
		"server/planted":    append([]string{"internal/http1", "internal/ring", "server"}, low...),
		"proxy":             append([]string{"internal/http1", "internal/rebind", "internal/ring", "internal/secret", "proxy/config", "proxy/route"}, low...),
		"proxy/apps":        {"proxy/config"},
		"proxy/config":      {"internal/unit"},
		"proxy/conformance": {},
		"proxy/publish":     {"proxy/config"},
		"proxy/route":       {},
		"proxy/secure":      {"internal/http1", "internal/sys", "proxy", "proxy/config"},
		"race":              append([]string{"internal/ring", "spec", "load", "record", "run"}, low...),
		"race/rival":        {},
		"spec":              {"internal/secret", "internal/unit"},
		"plan":              {"internal/unit", "internal/stat", "internal/hist", "spec", "record"},
		"record":            {"internal/secret", "internal/unit", "internal/stat", "internal/hist", "spec"},
		"verdict":           {"internal/secret", "internal/unit", "internal/stat", "internal/hist", "spec", "plan", "record"},
		"report":            {"internal/secret", "cores", "foreign", "internal/lazy", "internal/unit", "internal/stat", "internal/hist", "spec", "plan", "record", "verdict"},
		"report/chart":      {"internal/unit", "internal/stat", "internal/hist", "spec", "plan", "record", "verdict"},
		"report/page":       {"internal/secret", "foreign", "internal/lazy", "internal/unit", "internal/stat", "internal/hist", "spec", "plan", "record", "verdict", "report", "report/chart"},
		"report/journal":    {"internal/lazy", "internal/rebind", "internal/unit", "internal/stat", "internal/hist", "spec", "plan", "record", "verdict", "report", "report/chart", "report/page"},
		"export":            {"internal/secret", "internal/unit", "internal/hist", "spec", "record"},
		"live":              {"internal/secret", "internal/unit", "internal/hist", "internal/sys", "spec", "record", "verdict"},
		"live/page":         {"internal/rebind", "internal/unit", "internal/sys", "live", "record"},
		"live/terminal":     {"internal/unit", "live", "record"},
		"live/follow":       {"live", "spec", "plan", "record"},
		"foreign":           {"internal/lazy", "record"},
		"profile":           {"record"},
		"profile/symbol":    {},
		"profile/stacks":    {"internal/sys", "profile/symbol", "record"},
		"observe":           append([]string{"record", "observe/events"}, low...),
		"observe/events":    {"internal/hist", "internal/sys"},
		"cores":             {"spec"},
		"take":              append([]string{"cores", "spec", "record"}, low...),
		"fleet/bus":         {"internal/sys", "internal/unit"},
		"run":               append([]string{"cores", "take", "internal/secret", "internal/http1", "internal/ring", "spec", "plan", "load", "observe", "profile", "profile/stacks", "record", "verdict"}, low...),
		"calibrate":         append([]string{"cores", "internal/http1", "internal/ring", "spec", "load", "record", "run"}, low...),
		"fleet":             append([]string{"fleet/bus", "fleet/clock", "spec", "load", "record", "run"}, low...),
		"fleet/clock":       {},
		"doctor":            append([]string{"internal/ring", "spec", "observe", "record"}, low...),
		"selftest":          append([]string{"take", "spec", "plan", "observe", "record", "verdict", "run", "server", "server/planted"}, low...),
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

func sources(t *testing.T) []source {
	t.Helper()
	var list []source
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
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
	if err != nil {
		t.Fatal(err)
	}
	if len(list) < 20 {
		t.Fatalf("found %d files: the walk is broken", len(list))
	}
	return list
}

func TestImportsPointOneWay(t *testing.T) {
	allowed := mayImport()
	for _, s := range sources(t) {
		if s.test || s.dir == "." || strings.HasPrefix(s.dir, "cmd/") {
			continue
		}
		may, known := allowed[s.dir]
		if !known {
			t.Errorf("%s: package %s has no place in mayImport", s.name, s.dir)
			continue
		}
		for _, spec := range s.file.Imports {
			name := strings.Trim(spec.Path.Value, `"`)
			if own, ok := strings.CutPrefix(name, "ceiling/"); ok && !slices.Contains(may, own) {
				t.Errorf("%s: %s may not import %s", s.name, s.dir, own)
			}
			if strings.HasPrefix(name, "golang.org/x/sys") && s.dir != "internal/sys" && s.dir != "internal/ring" {
				t.Errorf("%s: only internal/sys and internal/ring import golang.org/x/sys", s.name)
			}
		}
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
		if s.test || strings.HasPrefix(s.dir, "cmd/") {
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
