package billing

import (
	"encoding/binary"
	"errors"

	"tollgate/engine/decimal"
)

// An audit block, as bytes (varints are unsigned LEB128 unless zigzag is said):
//
//	version 1 · origin · boot · sequence · number of checks · time of the first (zigzag)
//	then per check:
//	  number of its class in the dictionary; the next free number defines a class:
//	    environment · feature number (0: text follows) · reason (1 byte) · flags (1 byte)
//	  customer row, or with flagCustomerText its length and text
//	  where the feature number is 0: length and text
//	  with flagKey: length and text; with flagFlow: length and text
//	  time minus the time of the check before (zigzag)
//
// A class is what checks have in common, so that a check of a known customer costs one byte for
// its class, three for the customer, one for the time.
const auditVersion = 1

const (
	flagCustomerText = 1 << iota
	flagKey
	flagFlow
	flagFigures

	flagsKnown = flagCustomerText | flagKey | flagFlow | flagFigures
)

const (
	// maxAuditText bounds each text of a check, in bytes: 128 characters of 4.
	maxAuditText = 512
	// maxAuditClasses bounds the dictionary.
	maxAuditClasses = 1 << 16
	// auditHead bounds the bytes before the first check.
	auditHead = 1 + 5*binary.MaxVarintLen64
)

// errAudits means that bytes are not an audit block.
var errAudits = errors.New("billing: malformed audit block")

// auditClass is what several checks share.
type auditClass struct {
	env, feature  uint32
	reason, flags uint8
}

// AuditCheck is one answered check. Byte slices are copied by Add.
type AuditCheck struct {
	Env uint32
	// CustomerRow names the customer; if it is 0 (unknown), CustomerText does.
	CustomerRow  uint32
	CustomerText []byte
	// FeatureNumber names the feature; if it is 0 (unknown), FeatureText does.
	FeatureNumber uint32
	FeatureText   []byte
	Reason        Reason
	// At is when the check was answered, on the environment's clock, in milliseconds.
	At int64
	// IdempotencyKey and FlowID are the request's context, stored with it.
	IdempotencyKey, FlowID []byte
	// Figures are what a limit denied it by.
	Figures CheckFigures
}

// CheckFigures are a limit that denied a check, as it was then.
type CheckFigures struct {
	// Limited reports whether there are any.
	Limited bool
	Used    decimal.Decimal `json:"used" if:"Limited"`
	Held    decimal.Decimal `json:"held" if:"Limited"`
	Limit   decimal.Decimal `json:"limit" if:"Limited"`
	// Asked are the units that the check asked about; 0: none.
	Asked decimal.Decimal `json:"requestedUnits" if:"AskedUnits()"`
	// Budget is the key of the budget whose limit it is; empty: it is the feature's. It is cut like
	// other texts.
	Budget string `json:"budget,omitzero" rule:"min=1,max=128"`
}

// AskedUnits reports whether the check asked about units.
func (f *CheckFigures) AskedUnits() bool { return f.Limited && !f.Asked.IsZero() }

// decimals are the figures in the order of the block.
func (f *CheckFigures) decimals() [4]*decimal.Decimal {
	return [...]*decimal.Decimal{&f.Used, &f.Held, &f.Limit, &f.Asked}
}

// AuditBlock collects entitlement checks into the payload of one KindRecordAudits record. One
// goroutine uses it. The zero value must be Reset before use.
type AuditBlock struct {
	origin, boot, sequence uint64
	count                  uint64
	firstAt, lastAt        int64
	classes                map[auditClass]uint32
	body                   []byte
}

// Reset empties the block and names it: origin is the node's number, boot grows with each start of
// its process, sequence counts the blocks of one boot from 1. A block is applied once, however
// often it is proposed. One that arrives after a later one of the same boot is not applied.
func (b *AuditBlock) Reset(origin, boot, sequence uint64) {
	b.origin, b.boot, b.sequence = origin, boot, sequence
	b.count, b.firstAt, b.lastAt = 0, 0, 0
	b.body = b.body[:0]
	if b.classes == nil {
		b.classes = map[auditClass]uint32{}
	}
	clear(b.classes)
}

// Add appends one check. Texts are cut to 512 bytes.
func (b *AuditBlock) Add(c *AuditCheck) {
	class := auditClass{env: c.Env, feature: c.FeatureNumber, reason: uint8(c.Reason)}
	if c.CustomerRow == 0 {
		class.flags |= flagCustomerText
	}
	if len(c.IdempotencyKey) > 0 {
		class.flags |= flagKey
	}
	if len(c.FlowID) > 0 {
		class.flags |= flagFlow
	}
	if c.Figures.Limited {
		class.flags |= flagFigures
	}
	if b.count == 0 {
		b.firstAt, b.lastAt = c.At, c.At
	}
	dst := b.class(b.body, class)
	if c.CustomerRow == 0 {
		dst = appendText(dst, c.CustomerText)
	} else {
		dst = binary.AppendUvarint(dst, uint64(c.CustomerRow))
	}
	if c.FeatureNumber == 0 {
		dst = appendText(dst, c.FeatureText)
	}
	if class.flags&flagKey != 0 {
		dst = appendText(dst, c.IdempotencyKey)
	}
	if class.flags&flagFlow != 0 {
		dst = appendText(dst, c.FlowID)
	}
	if c.Figures.Limited {
		for _, n := range c.Figures.decimals() {
			hi, lo := n.Bits()
			dst = binary.AppendUvarint(binary.AppendVarint(dst, hi), lo)
		}
		dst = appendText(dst, []byte(c.Figures.Budget))
	}
	b.body = binary.AppendVarint(dst, c.At-b.lastAt)
	b.lastAt = c.At
	b.count++
}

// class appends a class's number, and defines it at its first use.
func (b *AuditBlock) class(dst []byte, c auditClass) []byte {
	n, known := b.classes[c]
	if known {
		return binary.AppendUvarint(dst, uint64(n))
	}
	n = uint32(len(b.classes))
	b.classes[c] = n
	dst = binary.AppendUvarint(dst, uint64(n))
	dst = binary.AppendUvarint(dst, uint64(c.env))
	dst = binary.AppendUvarint(dst, uint64(c.feature))
	return append(dst, c.reason, c.flags)
}

func appendText(dst, text []byte) []byte {
	text = text[:min(len(text), maxAuditText)]
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

// Len is the number of checks in the block.
func (b *AuditBlock) Len() int { return int(b.count) }

// Bytes returns an upper bound of the bytes that Encode appends. A block must stay below
// engine.MaxRecordBytes; a check adds at most 2.7 KB.
func (b *AuditBlock) Bytes() int { return auditHead + len(b.body) }

// Encode appends the payload.
func (b *AuditBlock) Encode(dst []byte) []byte {
	dst = append(dst, auditVersion)
	dst = binary.AppendUvarint(dst, b.origin)
	dst = binary.AppendUvarint(dst, b.boot)
	dst = binary.AppendUvarint(dst, b.sequence)
	dst = binary.AppendUvarint(dst, b.count)
	dst = binary.AppendVarint(dst, b.firstAt)
	return append(dst, b.body...)
}

// auditReader walks the checks of a block: call next, then use check, until next returns false.
// Then err reports whether the block was well-formed.
type auditReader struct {
	origin, boot, sequence uint64
	count                  uint64
	firstAt                int64
	// check is the present one; its texts alias the payload.
	check AuditCheck
	err   error

	rest    []byte
	left    uint64
	classes []auditClass
	room    [8]auditClass
}

// openAudits reads a block's head.
func openAudits(payload []byte) (r auditReader, err error) {
	if len(payload) == 0 || payload[0] != auditVersion {
		return r, errAudits
	}
	r.rest = payload[1:]
	r.origin, r.boot, r.sequence = r.uvarint(), r.uvarint(), r.uvarint()
	r.count, r.firstAt = r.uvarint(), r.varint()
	// A check takes at least three bytes, so no count reserves more memory than the payload
	// justifies.
	if r.err == nil && r.count > uint64(len(r.rest))/3 {
		r.err = errAudits
	}
	r.left, r.check.At = r.count, r.firstAt
	return r, r.err
}

// next reads the next check. It returns false at the end or if the block is malformed.
func (r *auditReader) next() bool {
	if r.err != nil {
		return false
	}
	if r.left == 0 {
		if len(r.rest) != 0 {
			r.err = errAudits
		}
		return false
	}
	r.left--
	class := r.class()
	at := r.check.At
	r.check = AuditCheck{
		Env: class.env, FeatureNumber: class.feature, Reason: Reason(class.reason),
	}
	if class.flags&flagCustomerText != 0 {
		r.check.CustomerText = r.text()
	} else {
		r.check.CustomerRow = r.number()
	}
	if class.feature == 0 {
		r.check.FeatureText = r.text()
	}
	if class.flags&flagKey != 0 {
		r.check.IdempotencyKey = r.text()
	}
	if class.flags&flagFlow != 0 {
		r.check.FlowID = r.text()
	}
	if r.check.Figures.Limited = class.flags&flagFigures != 0; r.check.Figures.Limited {
		for _, n := range r.check.Figures.decimals() {
			hi := r.varint()
			*n = decimal.FromBits(hi, r.uvarint())
		}
		r.check.Figures.Budget = string(r.text())
	}
	r.check.At = at + r.varint()
	return r.err == nil
}

// class reads a class's number, and the definition of a new class.
func (r *auditReader) class() auditClass {
	if r.classes == nil {
		r.classes = r.room[:0]
	}
	n := r.uvarint()
	if n < uint64(len(r.classes)) {
		return r.classes[n]
	}
	if n != uint64(len(r.classes)) || n >= maxAuditClasses {
		r.err = errAudits
		return auditClass{}
	}
	c := auditClass{env: r.number(), feature: r.number()}
	b := r.bytes(2)
	if r.err != nil || b[1]&^flagsKnown != 0 {
		r.err = errAudits
		return auditClass{}
	}
	c.reason, c.flags = b[0], b[1]
	r.classes = append(r.classes, c)
	return c
}

func (r *auditReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.err, r.rest = errAudits, nil
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *auditReader) varint() int64 {
	v, n := binary.Varint(r.rest)
	if n <= 0 {
		r.err, r.rest = errAudits, nil
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *auditReader) number() uint32 {
	v := r.uvarint()
	if v > 1<<32-1 {
		r.err = errAudits
	}
	return uint32(v)
}

func (r *auditReader) text() []byte {
	n := r.uvarint()
	if n > maxAuditText {
		r.err = errAudits
		return nil
	}
	return r.bytes(int(n))
}

func (r *auditReader) bytes(n int) []byte {
	if n > len(r.rest) {
		r.err, r.rest = errAudits, nil
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}
