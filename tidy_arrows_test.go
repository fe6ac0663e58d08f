package ceiling

import (
	"cmp"
	"go/ast"
	"maps"
	"path"
	"slices"
)

// maxBack is how many in a hundred of a package's arrows may run back up.
const maxBack = 20

// tangled counts the arrows that run back up in each package of ten files or more (fewer are seen at a
// glance) where they are more than maxBack. It reads a package as its files: an arrow runs from a
// file to another one that declares what it names. In the best order of the files that a greedy
// search finds (Eades, Lin and Smyth 1993), and sifting improves, few arrows run back up: then the
// package can be read from top to bottom.
func tangled(all []source) map[string][]int {
	packages := map[string][]int{}
	for dir, files := range byPackage(all) {
		if len(files) < 10 {
			continue
		}
		arrows := arrowsOf(files)
		if back := arrows.backward(arrows.sifted(arrows.order(files))); 100*back > maxBack*len(arrows) {
			packages[dir] = []int{back}
		}
	}
	return packages
}

func byPackage(all []source) map[string][]source {
	packages := map[string][]source{}
	for _, s := range all {
		if !s.test {
			packages[s.dir] = append(packages[s.dir], s)
		}
	}
	return packages
}

// arrow is "a file names what another one declares".
type arrow struct{ from, to string }

type arrows map[arrow]bool

func arrowsOf(files []source) arrows {
	names, methods := declarations(files)
	all := arrows{}
	add := func(from, to string) {
		if to != "" && to != from {
			all[arrow{from, to}] = true
		}
	}
	for _, s := range files {
		selected := map[*ast.Ident]bool{}
		own, _ := declarations([]source{s}) // a file for another build declares the same names
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				selected[n.Sel] = true
				add(s.name, methods[n.Sel.Name])
			case *ast.Ident:
				if !selected[n] && own[n.Name] == "" {
					add(s.name, names[n.Name])
				}
			}
			return true
		})
	}
	return all
}

// declarations says in which file a package's names stand, and its methods: those whose name only
// one file has, for without types others cannot be told apart.
func declarations(files []source) (names, methods map[string]string) {
	names, methods = map[string]string{}, map[string]string{}
	for _, s := range files {
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					names[d.Name.Name] = s.name
				} else if in, seen := methods[d.Name.Name]; seen && in != s.name {
					methods[d.Name.Name] = ""
				} else {
					methods[d.Name.Name] = s.name
				}
			case *ast.GenDecl:
				for _, name := range declaredNames(d) {
					names[name] = s.name
				}
			}
		}
	}
	return names, methods
}

func declaredNames(d *ast.GenDecl) (names []string) {
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			names = append(names, spec.Name.Name)
		case *ast.ValueSpec:
			for _, name := range spec.Names {
				names = append(names, name.Name)
			}
		}
	}
	return names
}

// order puts files that name others before those: it takes, in turn, a file that names none of
// those left (the last place), one that none of them names (the first place), or the one with the
// most arrows out, less those in.
func (a arrows) order(files []source) []string {
	left := map[string]bool{}
	for _, s := range files {
		left[s.name] = true
	}
	var first, last []string
	for len(left) > 0 {
		in, out := map[string]int{}, map[string]int{}
		for one := range a {
			if left[one.from] && left[one.to] {
				out[one.from]++
				in[one.to]++
			}
		}
		rank := func(name string) int {
			if out[name] == 0 || in[name] == 0 {
				return len(a)
			}
			return out[name] - in[name]
		}
		best := slices.MaxFunc(slices.Sorted(maps.Keys(left)), func(x, y string) int {
			return cmp.Or(cmp.Compare(rank(x), rank(y)), cmp.Compare(path.Base(y), path.Base(x)))
		})
		if out[best] == 0 {
			last = append(last, best)
		} else {
			first = append(first, best)
		}
		delete(left, best)
	}
	slices.Reverse(last)
	return append(first, last...)
}

// sifted moves one file at a time to where the fewest of its arrows run back up, until none gains,
// so that what a file is called decides nothing.
func (a arrows) sifted(order []string) []string {
	for moved := true; moved; {
		moved = false
		for _, name := range slices.Clone(order) {
			at := slices.Index(order, name)
			rest := slices.Delete(slices.Clone(order), at, at+1)
			back := make([]int, len(order)) // by the place of the file
			for _, other := range rest {
				if a[arrow{other, name}] {
					back[0]++
				}
			}
			for i, other := range rest {
				back[i+1] = back[i]
				if a[arrow{other, name}] {
					back[i+1]--
				}
				if a[arrow{name, other}] {
					back[i+1]++
				}
			}
			if best := slices.Index(back, slices.Min(back)); back[best] < back[at] {
				order, moved = slices.Insert(rest, best, name), true
			}
		}
	}
	return order
}

func (a arrows) backward(order []string) (n int) {
	place := map[string]int{}
	for i, name := range order {
		place[name] = i
	}
	for one := range a {
		if place[one.from] > place[one.to] {
			n++
		}
	}
	return n
}
