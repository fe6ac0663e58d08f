package record

import "reflect"

// Clone copies a row and its lists, because an observer reuses its row for the next sample.
func Clone(row ObservedRow) ObservedRow {
	c := reflect.New(reflect.TypeOf(row).Elem())
	c.Elem().Set(reflect.ValueOf(row).Elem())
	ownLists(c.Elem())
	return c.Interface().(ObservedRow)
}

// ownLists gives a value its own copies of the lists that it shares.
func ownLists(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			ownLists(v.Field(i))
		}
	case reflect.Slice:
		if v.IsNil() {
			return
		}
		list := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(list, v)
		v.Set(list)
		if v.Type().Elem().Kind() == reflect.Struct {
			for i := range v.Len() {
				ownLists(v.Index(i))
			}
		}
	}
}
