package book

// ChangeType is the caller's name for a plan change; prices are not compared.
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
// it was requested, and takes effect with the version that is newest then.
//
//schema:row
type PlanChange struct {
	ID                           [16]byte
	CreatedAt, EffectiveAt       int64
	Subscription, From, To, Next uint32
	Kind                         ChangeType
	Status                       ChangeStatus
}
