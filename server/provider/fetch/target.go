package fetch

import (
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"
)

const maxURL = 4096

// target is a URL that has passed every rule that needs no network.
type target struct {
	url *url.URL
	// host is lower case, ASCII, without brackets, port and final dot.
	host string
	port uint16
	// addr is set when the host is an IP address.
	addr netip.Addr
}

// hostPort is an entry of AllowHosts, or a dialled address.
func (t *target) hostPort() string {
	return net.JoinHostPort(t.host, strconv.Itoa(int(t.port)))
}

// sameOrigin reports whether credentials meant for one target may go to the other.
func (t *target) sameOrigin(o *target) bool {
	return t.url.Scheme == o.url.Scheme && t.host == o.host && t.port == o.port
}

// sameSite reports whether both hosts belong to one registrable domain. IP addresses, and names
// that are themselves public suffixes or have none, belong only to themselves.
func (t *target) sameSite(o *target) bool {
	if t.host == o.host {
		return true
	}
	if t.addr.IsValid() || o.addr.IsValid() {
		return false
	}
	a, err := publicsuffix.EffectiveTLDPlusOne(t.host)
	if err != nil {
		return false
	}
	b, err := publicsuffix.EffectiveTLDPlusOne(o.host)
	return err == nil && a == b
}

// HostOf is the host of a URL, with its port where that is not the scheme's, as a request carries
// it: in small ASCII letters (IDNA), whatever spelling the URL has. It is empty for a URL that is
// not fetched.
func HostOf(raw string) string {
	t, err := parseTarget(raw)
	if err != nil {
		return ""
	}
	return t.url.Host
}

// parseTarget applies the rules that the text of a URL can break: URL, userinfo, host.
func parseTarget(raw string) (*target, error) {
	if len(raw) > maxURL {
		return nil, &Refusal{Rule: RuleURL, Detail: "longer than 4,096 bytes"}
	}
	u, err := url.Parse(raw)
	if err != nil {
		// The error of net/url repeats the URL, which may hold a secret.
		return nil, &Refusal{Rule: RuleURL, Detail: "not a URL"}
	}
	return newTarget(u)
}

func newTarget(u *url.URL) (*target, error) {
	u.Scheme = strings.ToLower(u.Scheme)
	if u.Scheme != "http" && u.Scheme != "https" || u.Opaque != "" {
		return nil, &Refusal{Rule: RuleURL, Detail: "only absolute http and https URLs are fetched"}
	}
	if u.User != nil {
		return nil, &Refusal{Rule: RuleUserinfo, Detail: "a URL with userinfo is not fetched"}
	}
	t := &target{url: u}
	if err := t.setHost(u.Hostname()); err != nil {
		return nil, err
	}
	switch text := u.Port(); {
	case text != "":
		port, err := strconv.ParseUint(text, 10, 16)
		if err != nil || port == 0 {
			return nil, &Refusal{Rule: RulePort, Host: t.host, Detail: "not a port"}
		}
		t.port = uint16(port)
	case u.Scheme == "https":
		t.port = 443
	default:
		t.port = 80
	}
	// The request carries the host that was checked, not another spelling of it.
	u.Host = t.host
	if t.addr.Is6() {
		u.Host = "[" + t.host + "]"
	}
	if implied := map[string]uint16{"http": 80, "https": 443}[u.Scheme]; t.port != implied {
		u.Host = t.hostPort()
	}
	u.Fragment, u.RawFragment = "", ""
	return t, nil
}

func (t *target) setHost(host string) error {
	refuse := func(detail string) error {
		return &Refusal{Rule: RuleHost, Detail: detail}
	}
	if host == "" {
		return &Refusal{Rule: RuleURL, Detail: "the URL has no host"}
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		if addr.Zone() != "" {
			return refuse("an address with a zone is never public")
		}
		// ::ffff:127.0.0.1 is dialled as 127.0.0.1 and has to be judged as that.
		t.addr = addr.Unmap()
		t.host = t.addr.String()
		return nil
	}
	ascii, err := idna.Lookup.ToASCII(strings.TrimSuffix(host, "."))
	if err != nil || ascii == "" || len(ascii) > 253 {
		return refuse("not a host name")
	}
	if endsInNumber(ascii) {
		return refuse("a number is not a host name")
	}
	t.host = strings.ToLower(ascii)
	return nil
}

// endsInNumber is the WHATWG URL standard's "ends in a number checker": such a host is an IPv4
// address to some resolvers (127.1, 0x7f.1, 017700000001, 2130706433) and a name to others.
func endsInNumber(host string) bool {
	last := host[strings.LastIndexByte(host, '.')+1:]
	if last == "" {
		return true
	}
	if strings.HasPrefix(last, "0x") || strings.HasPrefix(last, "0X") {
		last = last[2:]
		return strings.Trim(last, "0123456789abcdefABCDEF") == ""
	}
	return strings.Trim(last, "0123456789") == ""
}
