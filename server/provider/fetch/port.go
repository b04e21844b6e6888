package fetch

import (
	"context"
	"net/url"
	"slices"
	"strconv"
)

// unsafePorts are those of other protocols than HTTP whose servers may accept a part of a request
// as a command (https://fetch.spec.whatwg.org/#port-blocking, and those of Redis and memcached). No
// stranger can name them; the configuration can. In order.
var unsafePorts = []uint16{
	1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102,
	103, 104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465,
	512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993,
	995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6379, 6566, 6665, 6666, 6667,
	6668, 6669, 6679, 6697, 10080, 11211,
}

// PortNamed reports whether an address which a stranger names may have this port.
func PortNamed(port uint16) bool {
	_, unsafe := slices.BinarySearch(unsafePorts, port)
	return port != 0 && !unsafe
}

// PortIn is the port that an address names; 0 is none.
func PortIn(u *url.URL) uint16 {
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil {
		return 0
	}
	return uint16(port)
}

// portKey is where a request's own port is in the context of its dialling: the transport hands on
// nothing else.
type portKey struct{}

func withPort(ctx context.Context, port uint16) context.Context {
	return context.WithValue(ctx, portKey{}, port)
}

func portOf(ctx context.Context) uint16 {
	port, _ := ctx.Value(portKey{}).(uint16)
	return port
}
