// Package link signs links to the customer portal, and reads them. Nothing is stored of a link: it
// says everything itself, signed with a key that all nodes derive from the secret that they share.
// See DESIGN.md of server/console/portal.
package link

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math"
	"time"

	"tollgate/engine/billing"
	"tollgate/server/vault"
)

// Root is the path that the portal's pages begin with.
const Root = "/portal"

const (
	version  = 1
	macBytes = 16
	// bytes of a link: version, environment, customer, key, time of issue, minutes, signature.
	bodyBytes = 1 + 4 + 16 + 16 + 8 + 2
	minuteMS  = 60_000
)

// Bounds of a link's life in minutes.
const (
	MinMinutes = 5
	MaxMinutes = billing.MaxPortalLinkMS / minuteMS
)

// ErrInvalid means that a text is not a link of ours.
var ErrInvalid = errors.New("link: not signed by this cluster")

// Link opens the pages of one customer.
type Link struct {
	Env      uint32
	Customer [16]byte
	// Key made it; the zero id stands for an operator.
	Key [16]byte
	// MadeAt is in log time, in milliseconds since 1970 UTC. It is valid for so many Minutes from
	// then on.
	MadeAt  int64
	Minutes uint16
}

// ExpiresAt is the instant from which it is not valid, in log time.
func (l *Link) ExpiresAt() int64 { return l.MadeAt + int64(l.Minutes)*minuteMS }

// Made is the answer to who made a link.
//
//schema:answer billingview PortalLink
type Made struct {
	// URL is where the customer's pages are until then.
	URL       string `json:"url" rule:"min=1"`
	ExpiresAt int64  `json:"expiresAt" as:"time"`
}

// Signer signs and reads links. Safe for concurrent use.
type Signer struct {
	keys *vault.Vault
	base string
}

// New makes a Signer from the secret that the nodes share, for pages at a public address.
func New(key [32]byte, base string) *Signer {
	return &Signer{vault.New(key, "tollgate portal links"), base}
}

// Make signs a link.
func (s *Signer) Make(l Link) Made {
	return Made{URL: s.base + Root + "/" + s.Text(l), ExpiresAt: l.ExpiresAt()}
}

// Text is a link as the path has it.
func (s *Signer) Text(l Link) string {
	b := binary.BigEndian.AppendUint32([]byte{version}, l.Env)
	b = append(append(b, l.Customer[:]...), l.Key[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(l.MadeAt))
	b = binary.BigEndian.AppendUint16(b, l.Minutes)
	return base64.RawURLEncoding.EncodeToString(append(b, s.sign(b, &l)...))
}

func (s *Signer) sign(body []byte, l *Link) []byte {
	key := s.keys.Derive(l.Env, "portal link", l.Customer)
	h := hmac.New(sha256.New, key[:])
	h.Write(body)
	return h.Sum(nil)[:macBytes]
}

// Read reads a link that Make signed. Whether it is still valid is for its reader to find out.
func (s *Signer) Read(text []byte) (l Link, err error) {
	if len(text) != base64.RawURLEncoding.EncodedLen(bodyBytes+macBytes) {
		return l, ErrInvalid
	}
	b, err := base64.RawURLEncoding.Strict().AppendDecode(nil, text)
	if err != nil || b[0] != version {
		return l, ErrInvalid
	}
	body := b[:bodyBytes]
	l.Env = binary.BigEndian.Uint32(body[1:])
	l.Customer, l.Key = [16]byte(body[5:21]), [16]byte(body[21:37])
	l.MadeAt = int64(binary.BigEndian.Uint64(body[37:]))
	l.Minutes = binary.BigEndian.Uint16(body[45:])
	if !hmac.Equal(b[bodyBytes:], s.sign(body, &l)) {
		return Link{}, ErrInvalid
	}
	return l, nil
}

// Begin is the link as it is made now, by the cluster's clock, for its Minutes. Its date is one
// millisecond behind all that this node has applied, and not what a clock says: whatever is
// revoked from then on ends it, even at the same stamp, and even if this node's clock is fast. Its
// Minutes become those from that date on.
func (l Link) Begin(m *billing.Machine, now time.Time) Link {
	start := m.Clock(now.UnixMilli())
	ends := start + int64(l.Minutes)*minuteMS
	l.MadeAt = max(m.PortalLinkDate(l.Env, l.Customer), ends-math.MaxUint16*minuteMS)
	l.Minutes = uint16((ends - l.MadeAt + minuteMS - 1) / minuteMS)
	if l.ExpiresAt() > start+billing.MaxPortalLinkMS {
		l.Minutes--
	}
	return l
}
