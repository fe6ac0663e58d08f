// Package reference writes the reference of a file format from the comments of the structs that hold
// it, so that a field is described in one place.
package reference

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Format is the structs of a file format, by the names of their types.
type Format struct {
	tag     string                // that has the names of the format: json or toml
	structs map[string]*structure // by package.Type
	kinds   map[string]string     // what other types are written as
	values  map[string]string     // of constants
	titles  map[string]string     // of sections that have another than their type's name
	first   string                // package that was read
	done    []string              // structs that have a section
}

type structure struct {
	pkg, name, doc string
	fields         []field
}

// field is a row of a table: one field, or several that one comment describes.
type field struct {
	goNames, names []string
	written        string // number, text, list of …
	of             string // the struct type it holds; "" for none
	doc            string
	embedded       bool
}

// Read parses the structs of some directories. kinds are types that are written as something else
// than their own fields: "time.Duration": "text, as in 10s".
func Read(tag string, kinds map[string]string, dirs ...string) (*Format, error) {
	own := map[string]string{} // types of the files join them
	maps.Copy(own, kinds)
	f := &Format{tag, map[string]*structure{}, own, map[string]string{}, map[string]string{}, "", nil}
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			return nil, err
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
			if err != nil {
				return nil, err
			}
			f.first = cmp.Or(f.first, file.Name.Name)
			f.add(file)
		}
	}
	return f, nil
}

func (f *Format) add(file *ast.File) {
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, s := range g.Specs {
			if v, ok := s.(*ast.ValueSpec); ok && g.Tok == token.CONST {
				f.constant(v)
			}
			t, ok := s.(*ast.TypeSpec)
			if !ok {
				continue
			}
			doc := cmp.Or(t.Doc.Text(), g.Doc.Text())
			if st, ok := t.Type.(*ast.StructType); ok {
				f.structs[file.Name.Name+"."+t.Name.Name] = &structure{file.Name.Name, t.Name.Name, doc, f.fields(file.Name.Name, st, doc)}
			} else if basic, ok := t.Type.(*ast.Ident); ok && f.kinds[file.Name.Name+"."+t.Name.Name] == "" {
				f.kinds[file.Name.Name+"."+t.Name.Name] = written(basic.Name)
			}
		}
	}
}

// constant keeps the value of a text that comments may name.
func (f *Format) constant(v *ast.ValueSpec) {
	for i, name := range v.Names {
		if i < len(v.Values) {
			if text, ok := v.Values[i].(*ast.BasicLit); ok && text.Kind == token.STRING {
				f.values[name.Name] = strings.Trim(text.Value, "`\"")
			}
		}
	}
}

// fields are the rows of a struct's table. A field without a comment belongs to the row above it if
// the comment of that row speaks of it.
func (f *Format) fields(pkg string, st *ast.StructType, doc string) (rows []field) {
	for _, one := range st.Fields.List {
		if len(one.Names) == 0 && (one.Tag == nil || strings.Contains(one.Tag.Value, ",inline")) {
			rows = append(rows, field{of: typeName(pkg, one.Type), embedded: true})
			continue
		}
		if one.Tag == nil {
			continue
		}
		name := strings.Split(reflect.StructTag(strings.Trim(one.Tag.Value, "`")).Get(f.tag), ",")[0]
		if name == "" || name == "-" || len(one.Names) == 0 {
			continue
		}
		own := one.Names[0].Name
		r := field{goNames: []string{own}, names: []string{name}, written: f.kindOf(pkg, one.Type), of: typeName(pkg, one.Type),
			doc: strings.TrimSpace(one.Doc.Text() + one.Comment.Text())}
		if len(rows) > 0 && r.doc == "" && !mentions(doc, own) {
			if above := &rows[len(rows)-1]; above.written == r.written && mentions(above.doc, own) {
				above.goNames, above.names = append(above.goNames, own), append(above.names, name)
				continue
			}
		}
		rows = append(rows, r)
	}
	return rows
}

func mentions(text, name string) bool {
	return regexp.MustCompile(`\b` + name + `\b`).MatchString(text)
}

// typeName is the name of a type with its package, without pointers and lists.
func typeName(pkg string, x ast.Expr) string {
	switch t := x.(type) {
	case *ast.StarExpr:
		return typeName(pkg, t.X)
	case *ast.ArrayType:
		return typeName(pkg, t.Elt)
	case *ast.MapType:
		return typeName(pkg, t.Value)
	case *ast.SelectorExpr:
		if from, ok := t.X.(*ast.Ident); ok {
			return from.Name + "." + t.Sel.Name
		}
	case *ast.Ident:
		if ast.IsExported(t.Name) {
			return pkg + "." + t.Name
		}
		return t.Name
	}
	return ""
}

// kindOf says how a type is written.
func (f *Format) kindOf(pkg string, x ast.Expr) string {
	switch t := x.(type) {
	case *ast.StarExpr:
		return f.kindOf(pkg, t.X)
	case *ast.ArrayType:
		if typeName(pkg, t.Elt) == "byte" {
			return "text, base64"
		}
		return "list of " + f.kindOf(pkg, t.Elt)
	case *ast.IndexExpr: // spec.List, where one value is a list of one
		return "list of " + f.kindOf(pkg, t.Index)
	case *ast.MapType:
		return "by " + f.kindOf(pkg, t.Key) + ": " + f.kindOf(pkg, t.Value)
	}
	return written(typeName(pkg, x))
}

// written is how a type of Go is written.
func written(name string) string {
	switch {
	case name == "string":
		return "text"
	case name == "bool":
		return "yes/no"
	case strings.HasPrefix(name, "int"), strings.HasPrefix(name, "uint"), strings.HasPrefix(name, "float"):
		return "number"
	case name == "time.Time":
		return "time, RFC 3339"
	}
	return name
}

// described is a comment of a struct with the names of the format in it.
func (f *Format) described(s *structure, text string) string {
	names := map[string]string{}
	for _, r := range s.fields {
		for i, g := range r.goNames {
			names[g] = "`" + r.names[i] + "`"
		}
	}
	return f.renamed(text, names, s.name)
}

// resolved replaces the names of types by what they are written as, or a link to their table.
func (f *Format) resolved(kind string) string {
	return regexp.MustCompile(`\b\w+\.[A-Z]\w*`).ReplaceAllStringFunc(kind, func(name string) string {
		if f.kinds[name] != "" || f.structs[name] == nil {
			return cmp.Or(f.kinds[name], name)
		}
		return "[" + f.title(name) + "](#" + strings.ReplaceAll(f.title(name), " ", "-") + ")"
	})
}

// renamed gives a comment the names of the format, and its values: a constant's name begins no
// sentence, or has several words. own is the type's name, which stays.
func (f *Format) renamed(text string, names map[string]string, own string) string {
	var b strings.Builder
	end := 0
	text = strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", `\|`)
	for _, at := range regexp.MustCompile(`(\b\w+\.)?\b[A-Z]\w*`).FindAllStringIndex(text, -1) {
		word := text[at[0]:at[1]]
		word = word[strings.LastIndexByte(word, '.')+1:]
		before := strings.TrimSpace(text[:at[0]])
		begins := before == "" || strings.HasSuffix(before, ".") || strings.HasSuffix(before, ";")
		value, known := f.values[word]
		switch {
		case names[word] != "" && (word != own || at[0] > 0) && (strings.ToUpper(word) != word || begins):
			word = names[word]
		case known && strings.ToUpper(word) != word && (strings.ToLower(word[1:]) != word[1:] || !begins):
			word = "`" + value + "`"
		default:
			continue
		}
		b.WriteString(text[end:at[0]] + word)
		end = at[1]
	}
	return b.String() + text[end:]
}

// Title gives a type's section another title than its name.
func (f *Format) Title(name, title string) { f.titles[name] = title }

// title is that of a type's section; the first package that was read has its names alone.
func (f *Format) title(name string) string {
	pkg, own, _ := strings.Cut(name, ".")
	if pkg != f.first && f.structs[f.first+"."+own] != nil {
		return words(pkg + " " + own)
	}
	return cmp.Or(f.titles[name], words(own))
}

// words are those of a type's name.
func words(name string) string {
	var b strings.Builder
	runes := []rune(name)
	for i, r := range runes {
		if i > 0 && unicode.IsUpper(r) {
			afterWord, beforeWord := unicode.IsLower(runes[i-1]), i+1 < len(runes) && unicode.IsLower(runes[i+1])
			if afterWord || beforeWord && unicode.IsUpper(runes[i-1]) {
				b.WriteByte(' ')
			}
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// reach adds the sections of a struct and of those that it holds, and returns those that are new.
func (f *Format) reach(name string) (list []string) {
	s := f.structs[name]
	if s == nil || slices.Contains(f.done, name) || f.kinds[name] != "" {
		return nil
	}
	f.done, list = append(f.done, name), []string{name}
	for _, r := range s.fields {
		list = append(list, f.reach(r.of)...)
	}
	return list
}

// Part is a part of a page: the sections of some structs, and of those that they hold.
type Part struct {
	Heading string
	Roots   []string
}

// Page is a whole page behind its introduction.
func (f *Format) Page(intro string, parts ...Part) (string, error) {
	var b strings.Builder
	b.WriteString(intro)
	for _, p := range parts {
		fmt.Fprintf(&b, "\n## %s\n", p.Heading)
		for _, root := range p.Roots {
			if f.structs[root] == nil {
				return "", fmt.Errorf("no struct %s", root)
			}
			for _, name := range f.reach(root) {
				if f.structs[name].doc == "" {
					return "", fmt.Errorf("struct %s has no comment, which would be its text in the reference", name)
				}
				f.section(&b, name)
			}
		}
	}
	return b.String(), nil
}

func (f *Format) section(b *strings.Builder, name string) {
	s := f.structs[name]
	fmt.Fprintf(b, "\n### %s\n\n%s\n", f.title(name), f.described(s, s.doc))
	b.WriteString("\n| field | written as | meaning |\n|---|---|---|\n")
	for _, r := range s.fields {
		first, kind := "`"+strings.Join(r.names, "`, `")+"`", f.resolved(r.written)
		if r.embedded {
			first, kind = "", f.resolved("fields of "+r.of)
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", first, kind, f.described(s, r.doc))
	}
}
