package ceiling

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// heldByTypes counts, for each type that exceeds what a reader can hold, the fields and methods that a
// value of it leads to: its own, and those of every type of its package that a field of it has,
// embedded or named, behind pointers, slices and maps, each once. A type that is split into four,
// which hold each other, is as large as before.
func heldByTypes(all []source) map[string][]int {
	types, large := typesOf(all), map[string][]int{}
	for name := range types {
		had := map[string]bool{}
		if fields, methods := types.held(name, had); len(had) > 0 && (fields > maxHeldFields || methods > maxHeldMethods) {
			large[name] = []int{fields, methods}
		}
	}
	return large
}

// declared is one type of the module: "dir.Name".
type declared struct {
	fields  int
	methods int
	holds   []string // types of this package that its fields have
}

type moduleTypes map[string]*declared

func (m moduleTypes) at(name string) *declared {
	if m[name] == nil {
		m[name] = &declared{}
	}
	return m[name]
}

// held adds up a type and what its fields hold: had are those that are counted already.
func (m moduleTypes) held(name string, had map[string]bool) (fields, methods int) {
	one := m[name]
	if one == nil || had[name] {
		return 0, 0
	}
	had[name] = true
	fields, methods = one.fields, one.methods
	for _, other := range one.holds {
		f, n := m.held(other, had)
		fields, methods = fields+f, methods+n
	}
	return fields, methods
}

func typesOf(all []source) moduleTypes {
	m := moduleTypes{}
	for _, s := range all {
		if s.test {
			continue
		}
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv != nil {
					m.at(s.dir+"."+receiver(d.Recv.List[0].Type)).methods++
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if spec, is := spec.(*ast.TypeSpec); is {
						m.declare(s, spec)
					}
				}
			}
		}
	}
	return m
}

func (m moduleTypes) declare(s source, spec *ast.TypeSpec) {
	one := m.at(s.dir + "." + spec.Name.Name)
	switch body := spec.Type.(type) {
	case *ast.StructType:
		for _, f := range body.Fields.List {
			one.fields += max(1, len(f.Names))
			one.holds = append(one.holds, s.typesIn(f.Type)...)
		}
	case *ast.InterfaceType:
		for _, f := range body.Methods.List {
			one.methods += max(1, len(f.Names))
		}
	}
}

// typesIn names the types of this package in that of a field; a function's parameters are not held.
func (s source) typesIn(e ast.Expr) (names []string) {
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncType, *ast.SelectorExpr:
			return false
		case *ast.Ident:
			names = append(names, s.dir+"."+n.Name)
		}
		return true
	})
	return names
}

// receiver is the name of a method's type.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// TestAFieldOfTheLoadIsThreeFiles: nothing between a flag or a key of a file and the run lists the fields of
// a load. One without rules of its own is named where it is declared, in the table of flags, and where it acts.
func TestAFieldOfTheLoadIsThreeFiles(t *testing.T) {
	var named []string
	for _, s := range sources(t) {
		ast.Inspect(s.file, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && id.Name == "NoLone" && !s.test && !slices.Contains(named, s.name) {
				named = append(named, s.name)
			}
			return true
		})
	}
	if len(named) < 2 || len(named) > 3 {
		t.Errorf("NoLone is named in %d files: %s; want 3", len(named), strings.Join(named, ", "))
	}
}
