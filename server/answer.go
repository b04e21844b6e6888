package server

// One answers with one record. It returns no fault, so that a read can end with it.
func One[T any](x *Exchange, status int, v *T, write func(*JSON, *T)) *Fault {
	write(x.Begin(), v)
	x.End(status)
	return nil
}

// List answers with all records of a list.
func List[T any](x *Exchange, all []T, write func(*JSON, *T)) *Fault {
	data := x.Begin()
	data.Open('[')
	for i := range all {
		write(data, &all[i])
	}
	data.Close(']')
	x.End(200)
	return nil
}

// Page answers with some records of a list, under a name; next leads to the others, where there are
// others.
func Page[T any](
	x *Exchange, name string, some []T, write func(*JSON, *T), next string,
) *Fault {
	data := x.Begin()
	data.Open('{')
	data.Array(name)
	for i := range some {
		write(data, &some[i])
	}
	data.Close(']')
	data.TextIf("nextCursor", next)
	data.Close('}')
	x.End(200)
	return nil
}
