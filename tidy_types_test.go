package ceiling

import (
	"go/ast"
	"path"
	"strings"
	"testing"
)

// maxFields and maxMethods are what a reader can hold of one type.
const maxFields, maxMethods = 25, 40

// shape is how much a type has, with all that it gets by embedding.
type shape struct{ fields, methods int }

// largeTypes may be larger, by what stands here and no more. The numbers only fall.
func largeTypes() map[string]shape {
	return map[string]shape{
		"experiment/spec.Load":        {28, 3},
		"experiment/spec.Spec":        {33, 24},
		"internal/ring.uring":         {37, 45},
		"measure/load.Config":         {29, 0},
		"measure/load.Result":         {28, 9},
		"measure/load.Tally":          {31, 9},
		"measure/load.quicExchange":   {43, 5},
		"measure/load.quicWorker":     {21, 41},
		"measure/load.shared":         {36, 0},
		"measure/load.worker":         {67, 165},
		"measure/observe.peerSampler": {30, 17},
		"proxy.counters":              {49, 2},
		"proxy.exchange":              {32, 60},
		"proxy.loop":                  {41, 33},
		"proxy.upstream":              {26, 14},
		"proxy/config.Config":         {28, 4},
		"record.LoadRow":              {26, 0},
		"record.Measured":             {44, 1},
		"record.Point":                {61, 3},
		"record.ProcessRow":           {26, 1},
		"record.Run":                  {38, 16},
		"record.TCPRow":               {28, 1},
		"record.measuredLine":         {45, 1},
		"record.resultLine":           {44, 16},
		"show/chart.Run":              {44, 18},
		"show/journal.Entry":          {29, 41},
		"show/journal.card":           {36, 41},
		"show/journal.runFigures":     {6, 59},
		"show/live.FinishedRun":       {45, 1},
		"show/live/page.state":        {26, 0},
		"verdict/audit.run":           {62, 17},
	}
}

// TestTypesAreSmall counts what a value of a type has: its fields and methods, and those of every
// type of this module that it embeds, for a reader has to hold them all.
func TestTypesAreSmall(t *testing.T) {
	types := typesOf(sources(t))
	allowed := largeTypes()
	for name := range types {
		got := types.shape(name, map[string]bool{})
		large := got.fields > maxFields || got.methods > maxMethods
		may, listed := allowed[name]
		switch {
		case large && !listed:
			t.Errorf("%s has %d fields and %d methods; %d and %d are enough", name, got.fields, got.methods, maxFields, maxMethods)
		case listed && !large:
			t.Errorf("%s is small again: take it off the list", name)
		case listed && got != may:
			t.Errorf("%s has %d fields and %d methods; the list says %d and %d, and may only fall", name, got.fields, got.methods,
				may.fields, may.methods)
		}
	}
	for name := range allowed {
		if types[name] == nil {
			t.Errorf("largeTypes has %s, which is no type", name)
		}
	}
}

// declared is one type of the module: "dir.Name".
type declared struct {
	fields   int // named ones
	methods  int
	embedded []string // types of this module
}

type moduleTypes map[string]*declared

func (m moduleTypes) at(name string) *declared {
	if m[name] == nil {
		m[name] = &declared{}
	}
	return m[name]
}

// shape adds up a type and what it embeds, each once: had are those that are counted already.
func (m moduleTypes) shape(name string, had map[string]bool) shape {
	one := m[name]
	if one == nil || had[name] {
		return shape{}
	}
	had[name] = true
	sum := shape{one.fields, one.methods}
	for _, e := range one.embedded {
		more := m.shape(e, had)
		sum.fields += more.fields
		sum.methods += more.methods
	}
	return sum
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
	var list *ast.FieldList
	switch body := spec.Type.(type) {
	case *ast.StructType:
		list = body.Fields
		for _, f := range list.List {
			one.fields += len(f.Names)
		}
	case *ast.InterfaceType:
		list = body.Methods
		for _, f := range list.List {
			one.methods += len(f.Names)
		}
	default:
		return
	}
	for _, f := range list.List {
		if len(f.Names) > 0 {
			continue
		}
		if name := s.ownType(f.Type); name != "" {
			one.embedded = append(one.embedded, name)
		} else {
			one.fields++ // another module's: its name is all that stands here
		}
	}
}

// ownType names a type of this module as typesOf does; "": it is another's.
func (s source) ownType(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return s.ownType(e.X)
	case *ast.IndexExpr:
		return s.ownType(e.X)
	case *ast.Ident:
		return s.dir + "." + e.Name
	case *ast.SelectorExpr:
		from, is := e.X.(*ast.Ident)
		if !is {
			return ""
		}
		for _, spec := range s.file.Imports {
			file := strings.Trim(spec.Path.Value, `"`)
			own, ok := strings.CutPrefix(file, "ceiling/")
			name := path.Base(file)
			if spec.Name != nil {
				name = spec.Name.Name
			}
			if ok && name == from.Name {
				return own + "." + e.Sel.Name
			}
		}
	}
	return ""
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
