package book

import (
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/page"
)

// ChangeType is what the caller calls a plan change; prices are not compared.
//
//schema:enum
type ChangeType uint8

const (
	ChangeUpgrade   ChangeType = 1 // UPGRADE
	ChangeDowngrade ChangeType = 2 // DOWNGRADE
)

// ChangeStatus is the state of a plan change.
//
//schema:enum
type ChangeStatus uint8

const (
	ChangePending   ChangeStatus = 1 // PENDING
	ChangeCompleted ChangeStatus = 2 // COMPLETED
	ChangeCancelled ChangeStatus = 3 // CANCELLED
	ChangeFailed    ChangeStatus = 4 // FAILED
)

// PlanChange is the record of a plan change. A pending one names the version that was newest when
// it was asked for; it takes the one that is newest when it takes effect.
type PlanChange struct {
	ID                           [16]byte
	CreatedAt, EffectiveAt       int64
	Subscription, From, To, Next uint32
	Kind                         ChangeType
	Status                       ChangeStatus
}

var PlanChangeCodec = page.Codec[PlanChange]{
	Append: func(dst []byte, c *PlanChange) []byte {
		dst = append(dst, c.ID[:]...)
		dst = rows.AppendI64(rows.AppendI64(dst, c.CreatedAt), c.EffectiveAt)
		dst = rows.AppendU32(rows.AppendU32(dst, c.Subscription), c.From)
		dst = rows.AppendU32(rows.AppendU32(dst, c.To), c.Next)
		return append(dst, byte(c.Kind), byte(c.Status))
	},
	Read: func(src []byte, c *PlanChange) ([]byte, error) {
		r := rows.Reader{Rest: src}
		c.ID = r.ID()
		c.CreatedAt, c.EffectiveAt = r.I64(), r.I64()
		c.Subscription, c.From, c.To, c.Next = r.U32(), r.U32(), r.U32(), r.U32()
		c.Kind, c.Status = ChangeType(r.U8()), ChangeStatus(r.U8())
		return r.Rest, r.Err
	},
}
