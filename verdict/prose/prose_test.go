package prose

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/template/parse"

	"ceiling/record"
)

// said is a place in the code that makes a statement.
type said struct {
	at    string
	code  string   // where it is put together, what it begins with
	whole bool     // code is all of it
	with  []string // the names of its values
	known bool     // these are all of them
}

// statements are those that the packages make, which speak in codes.
func statements(t *testing.T) []said {
	t.Helper()
	var list []said
	files := token.NewFileSet()
	for _, dir := range []string{"..", "../../record", "../../record/recordtest", "../../experiment/plan", "../../internal/stat",
		"../../measure/run", "../../measure/perturb", "../../cmd/ceiling", "."} {
		names, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(names) == 0 {
			t.Fatal(dir, err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(files, name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if call, is := n.(*ast.CallExpr); is {
					if s, is := stated(call); is {
						s.at = files.Position(call.Pos()).String()
						list = append(list, s)
					}
				}
				return true
			})
		}
	}
	return list
}

// stated tells whether a call makes a statement, and reads it.
func stated(call *ast.CallExpr) (s said, is bool) {
	name := ""
	switch fun := call.Fun.(type) {
	case *ast.Ident:
		name = fun.Name
	case *ast.SelectorExpr:
		name = fun.Sel.Name
	}
	if !slices.Contains([]string{"say", "just", "add", "State", "warn"}, name) || len(call.Args) != 2 {
		return s, false
	}
	code, values := call.Args[0], call.Args[1]
	s.whole = true
	if sum, is := code.(*ast.BinaryExpr); is {
		code, s.whole = sum.X, false
	}
	literal, is := code.(*ast.BasicLit)
	if !is || literal.Kind != token.STRING {
		return s, false
	}
	s.code, _ = strconv.Unquote(literal.Value)
	switch values := values.(type) {
	case *ast.Ident:
		s.known = values.Name == "nil"
	case *ast.CompositeLit:
		s.known = true
		for _, e := range values.Elts {
			key, _ := strconv.Unquote(e.(*ast.KeyValueExpr).Key.(*ast.BasicLit).Value)
			s.with = append(s.with, key)
		}
	}
	return s, true
}

// fieldsOf are the values that a template names.
func fieldsOf(name string, all map[string]bool) {
	tree := sentences().template(name)
	if tree == nil || tree.Tree == nil {
		return
	}
	fieldsIn(tree.Root, true, all)
}

// fieldsIn walks a node; root says that the dot is still the statement's values.
func fieldsIn(n parse.Node, root bool, all map[string]bool) {
	switch n := n.(type) {
	case *parse.ListNode:
		if n != nil {
			for _, one := range n.Nodes {
				fieldsIn(one, root, all)
			}
		}
	case *parse.ActionNode:
		fieldsIn(n.Pipe, root, all)
	case *parse.PipeNode:
		if n != nil {
			for _, c := range n.Cmds {
				for _, arg := range c.Args {
					fieldsIn(arg, root, all)
				}
			}
		}
	case *parse.FieldNode:
		if root {
			all[n.Ident[0]] = true
		}
	case *parse.VariableNode:
		if n.Ident[0] == "$" && len(n.Ident) > 1 {
			all[n.Ident[1]] = true
		}
	case *parse.IfNode:
		branch(&n.BranchNode, root, root, all)
	case *parse.WithNode:
		branch(&n.BranchNode, root, false, all)
	case *parse.RangeNode:
		branch(&n.BranchNode, root, false, all)
	case *parse.TemplateNode:
		if root {
			fieldsOf(n.Name, all)
		}
	}
}

func branch(n *parse.BranchNode, root, inside bool, all map[string]bool) {
	fieldsIn(n.Pipe, root, all)
	fieldsIn(n.List, inside, all)
	fieldsIn(n.ElseList, root, all)
}

// Every statement has its sentence and gives it all the values that it names, and every
// sentence is of a statement.
func TestCodesAndSentences(t *testing.T) {
	used := map[string]bool{}
	defined := map[string]bool{}
	for code := range sentences().texts {
		defined[code] = true
	}
	for _, s := range statements(t) {
		codes := []string{s.code}
		if !s.whole {
			codes = nil
			for code := range defined {
				if strings.HasPrefix(code, s.code) {
					codes = append(codes, code)
				}
			}
		}
		if len(codes) == 0 {
			t.Errorf("%s: no code begins with %q", s.at, s.code)
		}
		for _, code := range codes {
			used[code] = true
			if !defined[code] {
				t.Errorf("%s: %q has no sentence", s.at, code)
				continue
			}
			fields := map[string]bool{}
			fieldsOf(code, fields)
			for _, field := range slices.Sorted(maps.Keys(fields)) {
				if s.known && s.whole && !slices.Contains(s.with, field) {
					t.Errorf("%s: the sentence of %q names %q, which the statement does not give", s.at, code, field)
				}
			}
		}
	}
	for code := range defined {
		uses(sentences().template(code).Root, used)
	}
	for _, code := range slices.Sorted(maps.Keys(defined)) {
		if !used[code] {
			t.Errorf("nothing says %q", code)
		}
	}
}

// uses marks the templates that a node calls.
func uses(n parse.Node, used map[string]bool) {
	switch n := n.(type) {
	case *parse.ListNode:
		if n != nil {
			for _, one := range n.Nodes {
				uses(one, used)
			}
		}
	case *parse.TemplateNode:
		used[n.Name] = true
	case *parse.IfNode:
		uses(n.List, used)
		uses(n.ElseList, used)
	case *parse.WithNode:
		uses(n.List, used)
		uses(n.ElseList, used)
	case *parse.RangeNode:
		uses(n.List, used)
	}
}

// TestSentencesAreWhole: a sentence has every template that it calls, and those that these call.
func TestSentencesAreWhole(t *testing.T) {
	for _, code := range slices.Sorted(maps.Keys(sentences().texts)) {
		one := sentences().template(code)
		for _, part := range one.Templates() {
			called := map[string]bool{}
			uses(part.Root, called)
			for name := range called {
				if one.Lookup(name) == nil {
					t.Errorf("%q calls %q, which was not parsed with it", code, name)
				}
			}
		}
	}
}

func TestText(t *testing.T) {
	check := func(s record.Statement, want string) {
		t.Helper()
		// What a record gives back reads like what was written to it.
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var back record.Statement
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatal(err)
		}
		for _, one := range []record.Statement{s, back} {
			if got := Text(one); got != want {
				t.Errorf("%s reads %q, want %q", text, got, want)
			}
		}
	}
	check(record.Statement{}, "")
	check(record.State("killed", record.Values{"covered_s": 1.5, "asked_s": 10}),
		"the run was killed before it finished, or its disk was full; its figures cover 1.5 s of 10 s")
	check(record.State("killed", record.Values{"covered_s": math.NaN(), "asked_s": 0}),
		"the run was killed before it finished, or its disk was full; its figures cover 0 s")
	check(record.State("inconclusive", record.Values{"missing": []record.Statement{record.State("killed.next", nil)}}), "rerun")
	check(record.State("of-tomorrow", record.Values{"n": 3, "who": "nginx", "why": record.State("killed.next", nil)}),
		"of-tomorrow (n=3, who=nginx, why=rerun)")
	check(record.State("killed", record.Values{"covered_s": "much"}), "killed (covered_s=much)")
	check(record.State("general.tmpl", nil), "general.tmpl")
}

func FuzzText(f *testing.F) {
	f.Add(`{"code":"killed","with":{"covered_s":1,"asked_s":null}}`)
	f.Add(`{"code":"inconclusive","with":{"missing":[{"code":"killed"}]}}`)
	f.Add(`{"code":"caveat.errors","with":{"share":true,"kinds":1e300}}`)
	for code := range sentences().texts {
		f.Add(fmt.Sprintf(`{"code":%q,"with":{}}`, code))
	}
	f.Fuzz(func(_ *testing.T, text string) {
		var s record.Statement
		if json.Unmarshal([]byte(text), &s) == nil {
			Text(s)
		}
	})
}
