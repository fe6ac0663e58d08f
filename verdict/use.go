package verdict

import "ceiling/record"

// usesOf returns how much of the generator's busiest thread, the server's cores and the link was
// used, as far as each was observed.
func (f *facts) usesOf() []record.Use {
	var list []record.Use
	add := func(at, what, name string, used float64, of figure) {
		list = append(list, record.NewUse(at, what, name, used, of.value))
	}
	if busy := f.worst().cpu.generator.self.busy; busy.known {
		add(record.PlaceGenerator, record.UseOfThread, "", busy.value, some(1))
	}
	if f.cpu.server.subject.known {
		capacity, _ := f.cpu.server.capacity()
		add(record.PlaceInServer, record.UseOfCores, "", f.cpu.server.subject.cores, capacity)
		if len(f.cpu.server.subject.threads) > 0 {
			add(record.PlaceInServer, record.UseOfThread, "", f.cpu.server.subject.threads[0].run, some(1))
		}
	}
	for i, at := range []string{record.PlaceToServer, record.PlaceToClient} {
		if way := &f.path.ways[i]; way.known {
			add(at, record.UseOfLink, way.iface, way.bits, way.speed)
		}
	}
	return list
}
